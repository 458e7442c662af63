"""Users of this machine for tests that run processes as others than the superuser; only the superuser can make them."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.services import need

ROOT = Path(__file__).parents[2]


@contextmanager
def os_users(*names: str) -> Iterator[list[pwd.struct_passwd]]:
    """Users with a group of their own, who can execute this interpreter; they are removed at the end with their
    processes.
    """
    need("the superuser, who makes users for this test", os.geteuid() == 0, "run the tests as root")
    with ExitStack() as stack:
        stack.enter_context(_passable(Path(sys.executable).resolve(), ROOT / "pyproject.toml"))
        found = []
        for name in names:
            unique = f"ss{os.getpid()}{name}"[:31]
            subprocess.run(("useradd", "--system", "--user-group", "--shell", "/bin/bash", unique), check=True)
            stack.callback(subprocess.run, ("userdel", "--force", unique), check=False, capture_output=True)
            stack.callback(subprocess.run, ("pkill", "-KILL", "-u", unique), check=False)
            found.append(pwd.getpwnam(unique))
        yield found


@contextmanager
def _passable(*paths: Path) -> Iterator[None]:
    """Others may go through the folders above the paths, but not list them. Several test runs may ask for that at a
    time: the last one restores what was.
    """
    with (Path(tempfile.gettempdir()) / "streamsched-tests-passable").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        before: dict[str, int] = json.loads(lock.read() or "{}")
        for folder in (parent for path in paths for parent in path.parents):
            mode = stat.S_IMODE(folder.stat().st_mode)
            if not mode & stat.S_IXOTH:
                before.setdefault(str(folder), mode)
                folder.chmod(mode | stat.S_IXOTH)
        lock.truncate(0)
        lock.write(json.dumps(before))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name, mode in before.items():
                    Path(name).chmod(mode)
                lock.truncate(0)


@contextmanager
def folder_of(user: pwd.struct_passwd, files: Mapping[str, str]) -> Iterator[Path]:
    """A folder of the user with these files. Not below that of pytest, which other test runs close to others."""
    with tempfile.TemporaryDirectory(prefix="ss-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        for name, content in files.items():
            (folder / name).write_text(content)
        for each in (folder, *folder.iterdir()):
            os.chown(each, user.pw_uid, user.pw_gid)
        yield folder


def identity(user: pwd.struct_passwd) -> dict[str, Any]:
    """Options of `subprocess` for a process of the user."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [user.pw_gid]}
