"""Secrets in every field that may have one, on a real `streamsched dev`: their values are nowhere but in the programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess

ENV, FILE, HOOK = "canary-env-91c", "canary-file-3d7", "canary-hook-5e2"
APP = """
from streamsched import App, secret
app = App("shop")
app.python("tool", "tool:run", env={"A": secret("env:SHOP_A"), "B": secret("file:SECRETS/key.json#key")})
app.python("denied", "tool:run", env={"A": secret("env:HOME")})
app.http(
    "hook",
    f"http://127.0.0.1:9/{secret('env:SHOP_HOOK')}",
    headers={"Authorization": f"Bearer {secret('env:SHOP_A')}"},
    body=f"b={secret('file:SECRETS/key.json#key')}",
)
"""
TOOL = """
import os
def run():
    print("values", os.environ["A"], os.environ["B"], os.environ.get("SHOP_A"), flush=True)
    raise ValueError(os.environ["A"])
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    secrets = tmp_path / "secrets"
    folder = tmp_path / "shop"
    secrets.mkdir()
    folder.mkdir()
    (secrets / "key.json").write_text(json.dumps({"key": FILE}))
    (folder / "shop.py").write_text(APP.replace("SECRETS", str(secrets)))
    (folder / "tool.py").write_text(TOOL)
    process = DevProcess(folder)
    rules = f"default=env:SHOP_*,default=file:{secrets}/"
    process.start(SHOP_A=ENV, SHOP_HOOK=HOOK, STREAMSCHED_SECRETS=rules)
    yield process
    process.close()


def test_no_value_of_a_secret_is_anywhere(dev: DevProcess) -> None:
    deployed = dev.run("deploy", "shop.py", "--bundle", "--yes")
    assert deployed.code == 0, deployed.err
    answers = [deployed.out]
    for name in ("tool", "hook", "denied"):
        ran = dev.run("run", "start", f"shop.{name}", "--wait", within=120.0)
        answers += [ran.out, ran.err]
    runs = dev.run("run", "list", "-o", "json").json
    reasons = {each["program"].rpartition(".")[2]: each["reason"] for each in runs}
    for each in runs:
        answers += [dev.run(*command, each["id"]).out for command in (("run", "show"), ("run", "logs"))]
    answers += [dev.run("program", "list", "-o", "json").out, json.dumps(runs)]

    assert "[secret]" in reasons["tool"]
    assert "env:HOME may not be used" in reasons["denied"]
    assert any("values [secret] [secret] None" in each for each in answers)
    # all tables as text, and then every file: logs of runs and servers, bundles, the database
    settings = json.loads((dev.state / "dev.json").read_text())
    dumped = _dump(settings)
    dev.stop()
    texts = [*answers, dumped, dev.said_at_end, (dev.folder / "stderr").read_text()]
    for value in (ENV, FILE, HOOK):
        assert not any(value in each for each in texts)
        found = [path for path in dev.folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]
        assert found == []


def _dump(settings: dict[str, str]) -> str:
    """Every table, by `pg_dump` where it is installed; the files of the database are searched in any case."""
    program, url = shutil.which("pg_dump"), settings.get("database_url", "")
    if program is None or not url:
        return ""
    return subprocess.run([program, url, "--data-only"], capture_output=True, text=True, check=True).stdout
