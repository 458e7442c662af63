"""`run_as`: what a program of one namespace can do to those of another, and to the scheduler, on one machine."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from compose.cluster.walls import OUTPUT, files
from tests.support.dev_process import DevProcess
from tests.support.os_users import folder_of, os_users

KEY: Final = "canary-key-51fe"


class Installation(NamedTuple):
    dev: DevProcess
    sales: pwd.struct_passwd
    finance: pwd.struct_passwd

    def runs(self, app: str) -> list[dict[str, Any]]:
        return [run for run in self.dev.run("run", "list", "-o", "json").json if run["id"].startswith(f"{app}.")]


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with os_users("sales", "finance") as (sales, finance), folder_of(pwd.getpwuid(os.geteuid()), {}) as folder:
        folder.chmod(0o755)
        users = {"sales": sales.pw_name, "finance": finance.pw_name}
        for name, content in files(folder, folder / ".streamsched", users).items():
            (folder / name).write_text(content)
        dev = DevProcess(folder)
        dev.start(
            WALL_KEY=KEY,
            STREAMSCHED_SECRETS="finance=env:WALL_*",
            STREAMSCHED_RUN_AS=f"sales={sales.pw_name},finance={finance.pw_name}",
        )
        try:
            for app in ("keeper", "spy"):
                deployed = dev.run("deploy", f"{app}.py")
                assert deployed.code == 0, deployed
            yield Installation(dev, sales, finance)
        finally:
            dev.close()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_program_gets_nothing_of_another_namespace_nor_of_the_scheduler(installation: Installation) -> None:
    dev, sales, finance = installation
    assert dev.run("run", "start", "finance.walls.keep", "--now").code == 0
    running = dev.until(lambda: [run for run in installation.runs("finance.walls") if run["state"] == "RUNNING"])[0]
    dev.until(lambda: OUTPUT in dev.run("run", "logs", running["id"]).out)

    started = dev.run("run", "start", "sales.walls.spy", "--now", "--arg", f"run={running['id']}")
    assert started.code == 0, started
    spied = dev.until(
        lambda: [run for run in installation.runs("sales.walls") if run["state"] in ("COMPLETED", "FAILED")]
    )[0]
    log = dev.run("run", "logs", spied["id"]).out

    assert log.splitlines()[:2] == [sales.pw_name, "0077"]
    assert "DONE" in log
    assert "own run file" in log
    assert [line for line in log.splitlines() if line.startswith("GOT")] == []
    assert f"{OUTPUT} {finance.pw_uid} {len(KEY)}" in dev.run("run", "logs", running["id"]).out
    for run, user in ((running, finance), (spied, sales)):
        for name in (f"logs/{run['id']}.log", f"runs/{run['id']}.json"):
            found = (dev.state / name).stat()
            assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (user.pw_uid, 0o600), name

    assert dev.run("run", "kill", running["id"]).code == 0
    dev.until(lambda: [run for run in installation.runs("finance.walls") if run["state"] == "KILLED"])


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_bundle_is_read_by_its_user_and_not_changed(installation: Installation) -> None:
    dev, sales, _ = installation
    code = dev.folder / "code"
    code.mkdir(exist_ok=True)
    (code / "tool.py").write_text(
        "from pathlib import Path\n"
        "def run():\n"
        "    here = Path(__file__)\n"
        "    try:\n"
        "        here.write_text('')\n"
        "    except OSError as error:\n"
        "        print('read', here.parent.parent.name, error.strerror)\n"
    )
    (code / "bundled.py").write_text(
        'from streamsched import App\napp = App("box", namespace="sales")\napp.python("tool", "tool:run")\n'
    )
    deployed = dev.run("deploy", "--bundle", "code/bundled.py")
    assert deployed.code == 0, deployed

    assert dev.run("run", "start", "sales.box.tool", "--now").code == 0

    run = dev.until(lambda: [run for run in installation.runs("sales.box") if run["state"] in ("COMPLETED", "FAILED")])[
        0
    ]
    assert f"read {sales.pw_name} Permission denied" in dev.run("run", "logs", run["id"]).out
    gate = (dev.state / "bundles" / sales.pw_name).stat()
    assert (gate.st_uid, gate.st_gid, stat.S_IMODE(gate.st_mode)) == (os.geteuid(), sales.pw_gid, 0o750)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_program_has_its_own_spool_and_no_other(installation: Installation) -> None:
    dev, sales, _ = installation
    (dev.folder / "spooling.py").write_text(
        "from streamsched import App\n"
        'app = App("spool", namespace="sales")\n'
        'app.bash("write", """\n'
        'line() { printf \'{"id":"%s","source":"t","type":"partitions.added",\' $1; '
        'printf \'"data":{"dataset":"%s","count":1}}\\\\n\' $2; }\n'
        '{ line own sales.raw; line forged finance.raw; } > "$STREAMSCHED_SPOOL/1-1-a.events" && echo spooled\n'
        'cd "$STREAMSCHED_SPOOL/.."\n'
        "mkdir finance.walls.keep.manual-9.r1 && echo GOT a folder\n"
        "line loose finance.raw > 1-1-b.events && echo GOT loose\n"
        "ls . && echo GOT a list\n"
        "true\n"
        '""")\n'
    )
    assert dev.run("deploy", "spooling.py").code == 0
    assert dev.run("run", "start", "sales.spool.write", "--now").code == 0
    ended = dev.until(
        lambda: [run for run in installation.runs("sales.spool") if run["state"] in ("COMPLETED", "FAILED")]
    )[0]
    log = dev.run("run", "logs", ended["id"]).out
    assert "spooled" in log
    assert "GOT" not in log

    folder = dev.state / "spool" / ended["id"]
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (sales.pw_uid, 0o700)
    refused = dev.until(lambda: sorted(folder.glob("*.refused")))[0]
    assert "no permission to emit in namespace 'finance'" in refused.read_text()
    assert refused.read_text().count("\n") == 1
    assert not list(folder.glob("*.events"))


def test_a_user_that_does_not_exist_ends_the_start(tmp_path: Path) -> None:
    dev = DevProcess(tmp_path)

    with pytest.raises(AssertionError, match="user 'ss-nobody-here' of STREAMSCHED_RUN_AS does not exist"):
        dev.start(STREAMSCHED_RUN_AS="*=ss-nobody-here")
