"""Tokens on a real `streamsched dev`: its own, those it creates, and that of a run."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import httpx
import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

APP = """
from streamsched import App
app = App("shop")
app.bash("say", "echo the token is $STREAMSCHED_TOKEN; sleep 600")
"""


@pytest.mark.timeout(240)
def test_commands_find_the_token_of_dev_and_others_need_their_own(tmp_path: Path) -> None:
    dev = DevProcess(tmp_path)
    try:
        dev.start()
        file = dev.state / "token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert dev.run("token", "current", "-o", "json").json["name"].startswith("token:dev-")
        url = json.loads((dev.state / "dev.json").read_text())["url"]
        assert httpx.get(f"{url}/v1/apps").status_code == 401

        made = dev.run("token", "create", "anna", "--role", "viewer", "-n", "sales")
        anna = made.out.strip()
        assert (made.code, anna.startswith("sst_")) == (0, True)
        (tmp_path / "app.py").write_text(APP)
        refused = dev.run("deploy", "app.py", STREAMSCHED_TOKEN=anna)
        assert (refused.code, "no permission to deploy in namespace 'default'" in refused.err) == (8, True)
        for noun in ("schedule", "job", "run"):  # those of her only namespace
            assert dev.run(noun, "list", STREAMSCHED_TOKEN=anna).code == 0
            assert dev.run(noun, "list", "--namespace", "sales", STREAMSCHED_TOKEN=anna).code == 0
            assert dev.run(noun, "list", "--namespace", "default", STREAMSCHED_TOKEN=anna).code == 8
        again = dev.run("token", "create", "anna", "--role", "viewer")
        assert (again.code, "exists" in again.err) == (4, True)
        assert "anna" in dev.run("token", "list").out
        dev.run("token", "revoke", "anna")
        assert "was revoked" in dev.run("token", "current", STREAMSCHED_TOKEN=anna).err
        assert dev.run("token", "current", STREAMSCHED_TOKEN="nonsense").code == 8

        dev.run("deploy", "app.py")
        dev.run("run", "start", "shop.say", "--now")
        run = dev.run("run", "list", "-o", "json").json[0]["id"]
        while "the token is" not in (log := dev.run("run", "logs", run).out):
            assert dev.run("run", "show", run, "-o", "json").json["state"] in {"PENDING", "STARTING", "RUNNING"}
        own = {"Authorization": f"Bearer {log.strip().rpartition(' ')[2]}"}
        assert httpx.get(f"{url}/v1/caller", headers=own).json()["name"] == f"run:{run}"
        event = {"specversion": "1.0", "id": "1", "source": "t", "type": "done"}
        headers = {**own, "Content-Type": "application/cloudevents+json"}
        assert httpx.post(f"{url}/v1/events?check=none", json=event, headers=headers).status_code == 202
        assert httpx.delete(f"{url}/v1/apps/default/shop", headers=own).status_code == 403
        dev.run("run", "kill", run)
        while dev.run("run", "show", run, "-o", "json").json["endedAt"] is None:
            pass
        while (answer := httpx.get(f"{url}/v1/caller", headers=own)).status_code == 200:
            pass
        assert (answer.status_code, "has ended" in answer.json()["detail"]) == (401, True)

        assert dev.run("audit", "verify").code == 0
        assert "/v1/apps/default/shop" in dev.run("audit", "list").out
        secret = anna.split("_", 2)[2]
        texts = [path.read_text(errors="replace") for path in dev.state.glob("*.log")]
        assert not any(secret in text for text in texts)

        before = file.read_text()
        dev.stop()
        dev.start()
        assert file.read_text() == before
        dev.stop()
        file.unlink()
        dev.start()
        assert dev.run("token", "current").code == 0
    finally:
        dev.close()


@pytest.mark.timeout(120)
def test_an_open_api_stays_on_loopback(tmp_path: Path) -> None:
    dev = DevProcess(tmp_path)
    refused = dev.run("dev", "--host", "0.0.0.0", STREAMSCHED_API_ACCESS="open")
    assert (refused.code, "STREAMSCHED_API_ACCESS must be `tokens`" in refused.err) == (2, True)
    wrong = dev.run("dev", STREAMSCHED_API_ACCESS="maybe")
    assert (wrong.code, "must be one of tokens, open" in wrong.err) == (2, True)
