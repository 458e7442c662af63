"""A program of a real `streamsched dev` that writes into its spool by hand."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

import httpx
import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

FORGED = {"id": "forged", "source": "spy", "type": "partitions.added", "data": {"dataset": "finance.raw", "count": 1}}
OWN = {"id": "own", "source": "spy", "type": "partitions.added", "data": {"dataset": "default.raw", "count": 1}}
APP = f"""
from streamsched import App
app = App("shop")
app.bash("say", '''
printf '%s\\\\n%s\\\\n' '{json.dumps(FORGED)}' '{json.dumps(OWN)}' > "$STREAMSCHED_SPOOL/0000000000001-1-a.events"
echo "spool $STREAMSCHED_SPOOL"
''')
"""


@pytest.mark.timeout(240)
def test_a_line_that_a_program_writes_into_its_spool_is_judged_as_its_own(tmp_path: Path) -> None:
    dev = DevProcess(tmp_path)
    try:
        dev.start()
        url = json.loads((dev.state / "dev.json").read_text())["url"]
        http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {dev.token}"})
        (tmp_path / "app.py").write_text(APP)
        assert dev.run("deploy", "app.py").code == 0
        dev.run("run", "start", "shop.say", "--now")
        deadline, found = monotonic() + 60, []
        while not found and monotonic() < deadline:
            checks = http.get("/v1/admin/checks", timeout=30).json()["findings"]
            found = [each for each in checks if each["check"] == "spools"]
        run = dev.run("run", "list", "-o", "json").json[0]["id"]

        assert dev.run("run", "logs", run).out.strip() == f"spool {dev.state.resolve() / 'spool' / run}"
        assert [f"1 lines of run {run} on" in each["found"] for each in found] == [True]
        assert "no permission to emit in namespace 'finance'" in found[0]["found"]
        page = http.get("/metrics", timeout=30).text
        assert 'streamsched_events_accepted_total{dialect="spool",topic="partitions"} 1.0' in page
        assert "streamsched_spool_lines_refused_total 1.0" in page
        (refused,) = (dev.state / "spool" / run).iterdir()
        assert "forged" in refused.read_text()
    finally:
        dev.close()
