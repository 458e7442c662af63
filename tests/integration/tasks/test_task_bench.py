"""The benchmark of tasks runs from end to end, with few tasks; what it measures then means nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FEW = ("--rounds=1", "--registered=64", "--burst=300", "--held=500", "--dapr-burst=100", "--others=20", "--week=300")


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(600)
async def test_every_measure_has_a_number() -> None:
    command = (sys.executable, "-m", "bench.tasks", *FEW)
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    last = printed.decode().strip().splitlines()[-1]

    assert process.returncode == 0, printed.decode()
    assert last.startswith("RESULT ")
    found = json.loads(last.removeprefix("RESULT "))
    absent = {name for name, value in found.items() if value is None}
    assert absent <= {"dapr_acked_per_s", "dapr_register_per_s"}, "only what needs Dapr's own scheduler"
    wanted = {
        "register_per_s",
        "register_p99_ms",
        "register_sidecar_per_s",
        "register_http_per_s",
        "acked_sidecar_per_s",
        "dapr_acked_per_s",
        "dapr_register_per_s",
        "acked_per_s",
        "late_p99_s",
        "held_rss_mb",
        "takeover_s",
        "raw_per_s",
    }
    assert wanted <= found.keys()
