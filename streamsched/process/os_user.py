"""Users of the operating system: as whom a program runs, and who owns its files."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from streamsched.domain.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class OsUser:
    """A user of this machine. `groups`: all of them."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @classmethod
    def find(cls, name: str) -> Self:
        """The user of this machine with that name.

        Raises:
            ConfigurationError: this machine has no such user, or it is the superuser.
        """
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError) as exc:
            raise ConfigurationError(f"user '{name}' of STREAMSCHED_RUN_AS does not exist on this machine") from exc
        if found.pw_uid == 0:
            raise ConfigurationError(f"user '{name}' of STREAMSCHED_RUN_AS is the superuser")
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return cls(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)

    def environ(self) -> Mapping[str, str]:
        """Its variables."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def identity(user: OsUser | None) -> dict[str, Any]:
    """The options of `subprocess` for a process of the user, whose files are its own; none for this process's user."""
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": user.groups, "umask": 0o077}


def give(file: int | Path, user: OsUser | None) -> None:
    """Makes the user the owner; a link is changed itself. Nothing for this process's user.

    Raises:
        OSError: this process may not.
    """
    if user is None:
        return
    if isinstance(file, int):
        os.fchown(file, user.uid, user.gid)
    else:
        os.chown(file, user.uid, user.gid, follow_symlinks=False)


def private_folder(folder: Path, user: OsUser | None = None, *, passable: bool = False) -> Path:
    """Makes a folder that only its owner can read and list: this process's user, or `user`. One that exists is closed.
    `passable`: others get to files in it whose names they know, if those are theirs.

    Raises:
        OSError: it cannot be made, or is another's; or a link is in its place.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o711 if passable else 0o700)
        give(descriptor, user)
    finally:
        os.close(descriptor)
    return folder
