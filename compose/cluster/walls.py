"""A program that tries, from inside its run, what it can get of another namespace and of the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from compose.cluster.deployment import deploy
from compose.cluster.errors import DriveFailedError
from compose.cluster.local_cluster import LocalCluster

#: What the program of the second namespace prints, with the length of its secret.
OUTPUT: Final = "canary-output-88a0"
_PATIENCE_S: Final = 90.0
_KEEPER: Final = """
from streamsched import App, secret
app = App("walls", namespace="{namespace}")
app.python("keep", "keeping:run", env={{"KEY": secret("env:WALL_KEY")}})
"""
_KEEPING: Final = f"""
import os, time
def run(**arguments):
    print("{OUTPUT}", os.getuid(), len(os.environ["KEY"]), flush=True)
    time.sleep(600)
"""
_SPY: Final = """
from streamsched import App
app = App("walls", namespace="{namespace}")
app.bash("spy", "bash {folder}/spy.sh")
"""
#: Says GOT for everything that it gets.
_SPYING: Final = r"""
id -un
umask
DATA=@DATA@
RUN=$STREAMSCHED_ARG_RUN
for each in logs/$RUN.log runs/$RUN.json runs/$RUN.conf token dev.json dev.log lock postgres/PG_VERSION; do
  cat $DATA/$each >/dev/null 2>&1 && echo "GOT $each"
done
for each in . logs runs spool bundles users postgres users/@USER@ bundles/@USER@ spool/$RUN; do
  [ $each != . ] && ls $DATA/$each >/dev/null 2>&1 && echo "GOT list of $each"
  touch $DATA/$each/mine 2>/dev/null && echo "GOT $each to write"
done
ln -sf /etc/passwd $DATA/logs/$STREAMSCHED_RUN_ID.log 2>/dev/null && echo "GOT its log replaced"
for at in /proc/[0-9]*; do
  [ $(stat -c %u $at 2>/dev/null || echo $UID) = $UID ] && continue
  name="$(tr '\0' ' ' <$at/cmdline 2>/dev/null)"
  (exec 3<$at/mem) 2>/dev/null && echo "GOT mem of $name"
  [ -n "$name" ] && cat $at/environ >/dev/null 2>&1 && echo "GOT environ of $name"
  ls $at/fd >/dev/null 2>&1 && echo "GOT fd of $name"
  kill -0 ${at#/proc/} 2>/dev/null && echo "GOT to kill $name"
done
cat "$STREAMSCHED_RUN_FILE" >/dev/null && echo "own run file"
echo DONE
"""


def files(folder: Path, data: Path, users: Mapping[str, str]) -> Mapping[str, str]:
    """The files of both programs, by name: that of the first namespace tries what it gets of the second. `users`: of
    both, by namespace. `folder`: where the files will be. `data`: the launchers' data folder.
    """
    first, second = users
    return {
        "keeper.py": _KEEPER.format(namespace=second),
        "keeping.py": _KEEPING,
        "spy.py": _SPY.format(namespace=first, folder=folder),
        "spy.sh": _SPYING.replace("@DATA@", str(data)).replace("@USER@", users[second]),
    }


async def try_walls(cluster: LocalCluster, users: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Says what was tried.

    Raises:
        DriveFailedError: the program got something, or did not run as its user.
    """
    folder = cluster.folder.path / "walls"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for name, content in files(folder, cluster.folder.data, users).items():
        (folder / name).write_text(content)
    for name in ("keeper.py", "spy.py"):
        await deploy(cluster, folder, name)
    first, second = users
    access = {"Authorization": f"Bearer {cluster.token}"}
    async with httpx.AsyncClient(base_url=cluster.api, headers=access, timeout=20) as client:
        kept = await _started(client, f"{second}.walls.keep", {}, until="RUNNING")
        while True:
            if OUTPUT in (await client.get(f"/v1/runs/{kept}/logs")).text:
                break
            await asyncio.sleep(0.2)
        spied = await _started(client, f"{first}.walls.spy", {"run": kept}, until="COMPLETED")
        log = (await client.get(f"/v1/runs/{spied}/logs")).text
        (await client.post(f"/v1/runs/{kept}/kill", json={"atOnce": True})).raise_for_status()
    lines = log.splitlines()
    got = [line for line in lines if line.startswith("GOT")]
    if got or lines[:2] != [users[first], "0077"] or lines[-2:] != ["own run file", "DONE"]:
        raise DriveFailedError(f"a program of {first} got {got}; it printed:\n{log}")
    say(f"a program of {first}, as user {users[first]}, got nothing of {second} nor of the scheduler")


async def _started(client: httpx.AsyncClient, program: str, arguments: Mapping[str, str], *, until: str) -> str:
    """The run of the program, in this state."""
    body: dict[str, Any] = {"now": True, "arguments": arguments}
    answer = (await client.post(f"/v1/programs/{program}/runs", json=body)).raise_for_status().json()
    began = time.monotonic()
    while True:
        run = (await client.get(f"/v1/runs/{answer['run']}")).raise_for_status().json()
        if run["state"] == until:
            return run["id"]
        if run["state"] in ("FAILED", "KILLED", "LOST") or time.monotonic() - began > _PATIENCE_S:
            raise DriveFailedError(f"run {run['id']} is {run['state']}: {run['reason']}")
        await asyncio.sleep(0.2)
