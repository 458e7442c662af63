"""Roles as processes that are forked from one: `python -m tests.faults.processes.forked_roles FOLDER ROLE…`.

Each does what `streamsched ROLE` does, with its log in FOLDER; importing the product once for all of them takes a
fraction of the time. This process ends when the last of them has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from streamsched.roles.role import Role, run_role


def main(folder: Path, roles: list[Role]) -> None:
    for role in roles:
        if os.fork() == 0:
            log = os.open(folder / f"{role}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, sys.stdout.fileno())
            os.dup2(log, sys.stderr.fileno())
            run_role(role, os.environ)
            os._exit(0)
    for _ in roles:
        os.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Role(name) for name in sys.argv[2:]])
