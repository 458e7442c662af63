"""A program that dies after its commit is repeated by its retry policy: its rows are there once, and are said once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(300)]

APP = """
import sys
from streamsched import App, event, partitions, retry

app = App("once")
write = app.bash("write", f"{sys.executable} write.py")
app.schedule("w", write, when=event("go"), retry=retry(3, delay="1s"))
app.schedule("next", app.bash("next", "true"), when=partitions("out", 1, distinct=False), overlap="queue")
"""
WRITE = """
import os, signal
import pyarrow as pa
from streamsched import DeltaDataset, current_run

run = current_run()
rows = pa.table({"n": list(range(100)), "day": ["2026-01-01"] * 100})
DeltaDataset("out", "lake/out").write(rows, partition_by=["day"])
if run.attempt == 1:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "write.py").write_text(WRITE)
    dev = DevProcess(tmp_path)
    dev.start()
    try:
        yield dev
    finally:
        dev.close()


def test_a_job_that_is_repeated_after_its_commit_writes_nothing_twice(dev: DevProcess) -> None:
    from deltalake import DeltaTable

    assert dev.run("deploy", "app.py").code == 0
    assert dev.run("event", "emit", "custom", "go").code == 0

    def states() -> dict[str, str]:
        return {each["id"]: each["state"] for each in dev.run("run", "list", "-o", "json").json}

    second, following = "default.once.w.1.1.r2", "default.once.next.1.1.r1"
    dev.until(lambda: {states().get(second), states().get(following)} == {"COMPLETED"}, within=180)

    table = DeltaTable(str(dev.folder / "lake" / "out"))
    assert table.to_pyarrow_table().num_rows == 100
    assert states() == {"default.once.w.1.1.r1": "FAILED", second: "COMPLETED", following: "COMPLETED"}

    first = "default.once.w.1.1.r1"
    assert [(each["dataset"], each["partitions"], each["rows"]) for each in commits_of(dev, first)] == [
        ("default.out", 1, 100)
    ]
    assert commits_of(dev, second) == []
    shown = dev.run("run", "show", first).out
    assert "committed, then failed: another attempt finds what is committed" in " ".join(shown.split())
    assert "CRASH" in shown.upper() or "SIGNAL" in shown.upper()


def commits_of(dev: DevProcess, run: str) -> list[dict[str, object]]:
    return dev.run("run", "show", run, "-o", "json").json["commits"]
