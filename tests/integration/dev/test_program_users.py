"""`run_as`: what a program of one namespace can do to those of another, and to the scheduler, on one machine."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support.dev_process import DevProcess
from tests.support.os_users import folder_of, os_users

KEY: Final = "canary-key-51fe"
OUTPUT: Final = "canary-output-88a0"
APPS: Final = {
    "finance": """
from streamsched import App, secret
app = App("pay", namespace="finance")
app.python("roll", "roll:run", folder="FOLDER", env={"KEY": secret("env:FIN_KEY")})
""",
    "sales": """
from streamsched import App
app = App("spy", namespace="sales")
app.bash("spy", "bash FOLDER/spy.sh")
""",
}
ROLL: Final = f"""
import os, sys, time
def run(**arguments):
    print("{OUTPUT}", os.getuid(), len(os.environ["KEY"]), flush=True)
    time.sleep(600)
"""
#: Tries what it can; says GOT for everything that it gets.
SPY: Final = r"""
id -un
umask
DATA=FOLDER/.streamsched
RUN=$STREAMSCHED_ARG_RUN
for each in logs/$RUN.log runs/$RUN.json runs/$RUN.conf token dev.json dev.log lock postgres/PG_VERSION; do
  cat $DATA/$each >/dev/null 2>&1 && echo "GOT $each"
done
for each in . logs runs spool bundles users postgres users/FINANCE bundles/FINANCE spool/$RUN; do
  ls $DATA/$each >/dev/null 2>&1 && echo "GOT list of $each"
  touch $DATA/$each/mine 2>/dev/null && echo "GOT $each to write"
done
ln -sf /etc/passwd $DATA/logs/$STREAMSCHED_RUN_ID.log 2>/dev/null && echo "GOT its log replaced"
for at in /proc/[0-9]*; do
  [ $(stat -c %u $at 2>/dev/null || echo $UID) = $UID ] && continue
  name="$(tr '\0' ' ' <$at/cmdline 2>/dev/null)"
  (exec 3<$at/mem) 2>/dev/null && echo "GOT mem of $name"
  cat $at/environ >/dev/null 2>&1 && [ -n "$name" ] && echo "GOT environ of $name"
  ls $at/fd >/dev/null 2>&1 && echo "GOT fd of $name"
  kill -0 ${at#/proc/} 2>/dev/null && echo "GOT to kill $name"
done
cat "$STREAMSCHED_RUN_FILE" >/dev/null && echo "own run file"
echo DONE
"""


class Installation(NamedTuple):
    dev: DevProcess
    sales: pwd.struct_passwd
    finance: pwd.struct_passwd

    def runs(self, app: str) -> list[dict[str, Any]]:
        return [run for run in self.dev.run("run", "list", "-o", "json").json if f".{app}." in run["id"]]


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with os_users("sales", "finance") as (sales, finance), folder_of(pwd.getpwuid(os.geteuid()), {}) as folder:
        folder.chmod(0o755)
        for name, content in {**APPS, "roll": ROLL}.items():
            (folder / f"{name}.py").write_text(content.replace("FOLDER", str(folder)))
        spy = SPY.replace("FOLDER", str(folder)).replace("FINANCE", finance.pw_name)
        (folder / "spy.sh").write_text(spy)
        dev = DevProcess(folder)
        dev.start(
            FIN_KEY=KEY,
            STREAMSCHED_SECRETS="finance=env:FIN_*",
            STREAMSCHED_RUN_AS=f"sales={sales.pw_name},finance={finance.pw_name}",
        )
        try:
            for app in APPS:
                deployed = dev.run("deploy", f"{app}.py")
                assert deployed.code == 0, deployed
            yield Installation(dev, sales, finance)
        finally:
            dev.close()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_program_gets_nothing_of_another_namespace_nor_of_the_scheduler(installation: Installation) -> None:
    dev, sales, finance = installation
    assert dev.run("run", "start", "finance.pay.roll", "--now").code == 0
    running = dev.until(lambda: [run for run in installation.runs("pay") if run["state"] == "RUNNING"])[0]
    dev.until(lambda: OUTPUT in dev.run("run", "logs", running["id"]).out)

    started = dev.run("run", "start", "sales.spy.spy", "--now", "--arg", f"run={running['id']}")
    assert started.code == 0, started
    spied = dev.until(lambda: [run for run in installation.runs("spy") if run["state"] in ("COMPLETED", "FAILED")])[0]
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
    dev.until(lambda: [run for run in installation.runs("pay") if run["state"] == "KILLED"])


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
    (dev.folder / "bundled.py").write_text(
        "from streamsched import App\n"
        'app = App("box", namespace="sales")\n'
        f'app.python("tool", "tool:run", folder="{code}")\n'
    )
    deployed = dev.run("deploy", "bundled.py")
    assert deployed.code == 0, deployed

    assert dev.run("run", "start", "sales.box.tool", "--now").code == 0

    run = dev.until(lambda: [run for run in installation.runs("box") if run["state"] in ("COMPLETED", "FAILED")])[0]
    assert f"read {sales.pw_name} Permission denied" in dev.run("run", "logs", run["id"]).out
    gate = (dev.state / "bundles" / sales.pw_name).stat()
    assert (gate.st_uid, gate.st_gid, stat.S_IMODE(gate.st_mode)) == (os.geteuid(), sales.pw_gid, 0o750)


def test_a_user_that_does_not_exist_ends_the_start(tmp_path: Path) -> None:
    dev = DevProcess(tmp_path)

    with pytest.raises(AssertionError, match="user 'ss-nobody-here' of STREAMSCHED_RUN_AS does not exist"):
        dev.start(STREAMSCHED_RUN_AS="*=ss-nobody-here")
