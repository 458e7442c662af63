"""What a program can read of the processes that hold secrets, when it runs as their user."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.dev_process import DevProcess
from tests.support.os_users import ROOT, folder_of, identity, os_users

CANARY: Final = "canary-7fd1c2"
#: Tries to open what each process of this machine has, and says of which it could, with its command.
PROBE: Final = r"""
for at in /proc/[0-9]*; do
  pid=${at#/proc/}
  [ "$pid" = $$ ] && continue
  open=""
  (exec 3<$at/mem) 2>/dev/null && open="$open mem"
  (exec 3<$at/maps; read -r line <&3) 2>/dev/null && open="$open maps"
  ls $at/fd >/dev/null 2>&1 && open="$open fd"
  (exec 3<$at/environ) 2>/dev/null && open="$open environ"
  told=""
  tr '\0' '\n' 2>/dev/null <$at/environ | grep -qE 'CANARY|STREAMSCHED_DATABASE_URL' && told=TOLD
  echo "PROCESS [$open] $told $(tr '\0' ' ' <$at/cmdline 2>/dev/null)"
done
echo DONE
""".replace("CANARY", CANARY)
APP: Final = """
from streamsched import App
app = App("shop")
app.bash("probe", "bash probe.sh")
"""


@pytest.fixture(scope="module")
def user() -> Iterator[pwd.struct_passwd]:
    with os_users("alone") as (found,):
        yield found


@pytest.fixture
def alone(user: pwd.struct_passwd) -> Iterator[Path]:
    with folder_of(user, {"app.py": APP, "probe.sh": PROBE}) as folder:
        yield folder


def probed(log: str) -> dict[str, str]:
    """What could be opened, by the command of the process."""
    found = {}
    for line in log.splitlines():
        if line.startswith("PROCESS ["):
            what, _, command = line.removeprefix("PROCESS [").partition("]")
            found[command.strip()] = what.strip()
    return found


@pytest.mark.timeout(180)
def test_a_program_of_the_same_user_reads_neither_scheduler_nor_runner_nor_fork_server(
    alone: Path, user: pwd.struct_passwd
) -> None:
    dev = DevProcess(alone, identity(user))
    environ = {"SHOP_KEY": CANARY, "STREAMSCHED_SECRETS": "default=env:SHOP_*", "HOME": str(alone)}
    dev.start(**environ)
    try:
        assert dev.run("deploy", "app.py").code == 0
        for _ in range(2):  # the fork server runs for the second
            assert dev.run("run", "start", "shop.probe", "--wait").code == 0
        run = dev.run("run", "list", "-o", "json").json[0]["id"]
        log = dev.run("run", "logs", run).out
    finally:
        dev.close()

    found = probed(log)
    assert "DONE" in log
    ours = {command: what for command, what in found.items() if "streamsched" in command and "probe.sh" not in command}
    assert [each for each in ours if "main()" in each and " dev " in f"{each} "], found
    assert [each for each in ours if "--fork-server" in each], found
    nothing = ("guard.py", "postgres", "run start")  # have no secrets; or are the person's own
    held = {each: what for each, what in ours.items() if not any(word in each for word in nothing)}
    assert set(held.values()) == {""}, held
    assert [each for each in found if each.startswith("TOLD")] == []


#: Starts a closed process, says its number, and ends it at the end of the standard input.
STARTER: Final = """
import os, sys
from streamsched.process.closed_process import start_closed
process = start_closed("{module}", {arguments!r}, environ=os.environ, pass_fds=(0,))
print(process.pid, flush=True)
sys.stdin.read()
process.terminate()
process.wait()
"""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("streamsched.roles.runner", ["some-run"]),
        ("streamsched.spark.backends.connect.keeper", [".", "{}", "0"]),
    ],
    ids=["runner", "keeper"],
)
def test_a_closed_process_is_given_its_environment_after_it_has_closed_itself(
    module: str, arguments: list[str], alone: Path, user: pwd.struct_passwd
) -> None:
    environ = {**os.environ, "STREAMSCHED_DATABASE_URL": f"postgresql://u:{CANARY}@127.0.0.1:9/d"}
    with subprocess.Popen(
        (sys.executable, "-c", STARTER.format(module=module, arguments=arguments)),
        cwd=alone,
        env={**environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **identity(user),
    ) as process:
        assert process.stdout is not None
        at = f"/proc/{int(process.stdout.readline())}"
        assert Path(f"{at}/environ").exists()
        assert CANARY.encode() not in Path(f"{at}/environ").read_bytes()  # as the superuser, who can always read it
        tried = "".join(f"cat {at}/{name} >/dev/null && echo {name};" for name in ("environ", "maps")) + f"ls {at}/fd"
        while (found := subprocess.run(("sh", "-c", tried), check=False, capture_output=True, **identity(user))).stdout:
            assert process.poll() is None  # it is still before its first line
        assert found.stderr.count(b"Permission denied") == 3
        process.communicate()
