"""What separates programs from the scheduler and from each other on a launcher's machine, and what does not."""

from __future__ import annotations

import grp
import os
from collections.abc import Sequence

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.domain.programs.spark_profile import EVERYWHERE
from streamsched.process.os_user import OsUser


def check_users(users: ProgramUsers) -> None:
    """Raises:
    ConfigurationError: programs cannot run as these users from this process, or the users are not separated.
    """
    if not users.users:
        return
    if os.geteuid() != 0:
        raise ConfigurationError("STREAMSCHED_RUN_AS needs a launcher that is started as the superuser")
    groups: dict[int, str] = {}
    for user in map(OsUser.find, sorted(set(users.users.values()))):
        if (other := groups.setdefault(user.gid, user.name)) != user.name:
            raise ConfigurationError(
                f"users '{other}' and '{user.name}' of STREAMSCHED_RUN_AS have the same group "
                f"{grp.getgrgid(user.gid).gr_name}: give each a primary group of its own"
            )


def find_unseparated(users: ProgramUsers) -> Sequence[str]:
    """Sentences about what programs can get at because no user of the system separates them."""
    if EVERYWHERE in users.users:
        return ()
    whose = "programs that STREAMSCHED_RUN_AS does not name" if users.users else "programs"
    if os.geteuid() == 0:
        return (
            f"{whose} run as the superuser, as this launcher does: they read all files, and memory, environment and "
            "secrets of every process",
        )
    return (
        f"{whose} run as the user of this launcher: they read and change its data folder (logs and run files of all "
        "namespaces, with `dev` the token and the database), and end each other's processes",
    )
