"""Real runs: a developer without `shell` executes nothing on the launcher's machine; one with it does."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.support.dev_process import DevProcess

CODE: Final = b"""
import os

def run(**_):
    print("ran as", os.getuid(), flush=True)

if __name__ == "__main__":
    run()
"""
PROGRAMS: Final[dict[str, dict[str, Any]]] = {
    "tool": {"type": "python", "target": "x:run", "folder": "."},
    "join": {"type": "spark", "main": "x.py"},
}


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    folder = tmp_path / "sales"
    folder.mkdir()
    process = DevProcess(folder)
    yield process
    process.close()


def bundle() -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        member = tarfile.TarInfo("x.py")
        member.size = len(CODE)
        archive.addfile(member, io.BytesIO(CODE))
    return raw.getvalue()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_developer_without_shell_runs_nothing_on_the_launchers_machine(dev: DevProcess) -> None:
    url = re.findall(r"http://[\w.:]+", dev.start(STREAMSCHED_SPARK_MASTER="local[1]"))[0]
    archive = bundle()
    digest = hashlib.sha256(archive).hexdigest()
    path = f"/v1/namespaces/sales/bundles/{digest}"
    body = {"programs": [{"name": name, **each, "bundle": digest} for name, each in PROGRAMS.items()]}
    with httpx.Client(base_url=url, timeout=120.0) as client:

        def token(name: str, *, shell: bool) -> dict[str, str]:
            grant = {"role": "developer", "namespace": "sales", "shell": shell}
            asked = {"name": name, "grants": [grant]}
            made = client.post("/v1/tokens", json=asked, headers=dev.authorization)
            assert made.status_code == 201, made.text
            return {"Authorization": f"Bearer {made.json()['text']}"}

        plain, shell = token("plain", shell=False), token("shell", shell=True)
        uploaded = client.put(path, content=archive, headers={**plain, "content-type": "application/x-tar"})
        assert uploaded.status_code == 200, uploaded.text
        for name, each in PROGRAMS.items():
            one = {"programs": [{"name": name, **each, "bundle": digest}]}
            refused = client.put("/v1/apps/sales/shop", json=one, headers=plain)
            assert (refused.status_code, f"'{name}'" in refused.text) == (403, True), refused.text
            started = client.post(f"/v1/programs/sales.shop.{name}/runs", json={"now": True}, headers=plain)
            assert started.status_code == 404, started.text

        assert client.put("/v1/apps/sales/shop", json=body, headers=shell).status_code == 200
        runs = []
        for name in PROGRAMS:
            started = client.post(f"/v1/programs/sales.shop.{name}/runs", json={"now": True}, headers=plain)
            assert started.status_code == 202, started.text  # an operator's permission: the definition is trusted
            runs.append(started.json()["run"])

        def ended() -> list[dict[str, Any]]:
            found = [client.get(f"/v1/runs/{run}", headers=plain).json() for run in runs]
            return found if all(each["endedAt"] for each in found) else []

        found = dev.until(ended, within=600.0)
        assert [each["state"] for each in found] == ["COMPLETED"] * len(runs), found
        for run in runs:
            assert "ran as" in client.get(f"/v1/runs/{run}/logs", headers=plain).text
