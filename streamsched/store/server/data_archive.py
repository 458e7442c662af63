"""The data folder of `streamsched dev` as one archive, and back: a compressed tar file that begins with a description.

The files of the embedded PostgreSQL are copied as they are, so its server must be stopped, and they fit the kind of
machine only on which they were made.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Final

from streamsched import __version__
from streamsched.domain.errors import ConfigurationError, ConflictError, DecodeError, NotFoundError
from streamsched.process.files import sync_folder, write_atomically
from streamsched.store.server.embedded_server import MAJOR, adopt_folder
from streamsched.store.server.folder_lock import LOCK

#: The first member of an archive.
_DESCRIPTION: Final = "streamsched-data.json"
_FORMAT: Final = 1
#: The folder of PostgreSQL in a data folder.
POSTGRES: Final = "postgres"
#: What belongs to the processes that run there, by its path in the folder.
_OF_PROCESSES: Final = frozenset({LOCK, "dev.json", "dev.json.new", "postgres.new", f"{POSTGRES}/postmaster.pid"})
_LARGEST_DESCRIPTION: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ArchiveDescription:
    """What an archive holds.

    Attributes:
        version: of the release that made it.
        postgres: the major version of PostgreSQL whose files these are.
        machine: the system and processor on which they can be read.
        folder: the data folder, on the machine where the archive was made.
    """

    version: str
    postgres: int
    machine: str
    folder: str
    made_at: str


def check_data(folder: Path) -> None:
    """Raises:
    NotFoundError: the folder holds no data.
    """
    if not (folder / POSTGRES / "PG_VERSION").is_file():
        raise NotFoundError("data of `streamsched dev` in folder", str(folder))


def pack_folder(folder: Path, archive: Path, *, now: datetime) -> ArchiveDescription:
    """Writes the archive, which only its owner can read, in one step. The caller holds the folder's lock, and its
    PostgreSQL is stopped.

    Raises:
        NotFoundError: the folder holds no data.
        ConflictError: the file exists, or is in the folder.
        OSError: a file cannot be read or written.
    """
    check_data(folder)
    if archive.exists():
        raise ConflictError(f"{archive} exists: name another file, or delete it")
    if archive.resolve().is_relative_to(folder.resolve()):
        raise ConflictError(f"{archive} is in the folder that it would hold: name a file elsewhere")
    version = int((folder / POSTGRES / "PG_VERSION").read_text())
    found = ArchiveDescription(
        __version__, version, _machine(), str(folder.resolve()), now.isoformat(timespec="seconds")
    )
    with write_atomically(archive) as file:
        os.fchmod(file.fileno(), 0o600)
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=3, format=tarfile.PAX_FORMAT) as tar:
            text = json.dumps({"format": _FORMAT, **asdict(found)}, indent=1).encode()
            member = tarfile.TarInfo(_DESCRIPTION)
            member.size, member.mode = len(text), 0o600
            tar.addfile(member, BytesIO(text))
            for path in _archived_paths(folder):
                tar.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False)
    sync_folder(archive.parent)
    return found


def _archived_paths(folder: Path) -> Iterator[Path]:
    """Folders, files and links, each folder before what is in it; without sockets and what belongs to processes."""
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted((*folders, *names)):
            path = Path(where, name)
            relative = path.relative_to(folder).as_posix()
            if relative in _OF_PROCESSES:
                folders[:] = [each for each in folders if each != name]
            elif path.is_symlink() or path.is_dir() or path.is_file():
                yield path


def describe_archive(archive: Path) -> ArchiveDescription:
    """Reads what an archive holds.

    Raises:
        NotFoundError: there is no such file.
        DecodeError: it is no archive of a data folder, or of a later format.
    """
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            member = tar.next()
            file = None if member is None or member.name != _DESCRIPTION else tar.extractfile(member)
            stored = {} if file is None else json.loads(file.read(_LARGEST_DESCRIPTION))
            if stored.pop("format", None) != _FORMAT:
                raise DecodeError(str(archive), f"is no archive of a data folder that streamsched {__version__} reads")
            return ArchiveDescription(**stored)
    except FileNotFoundError as exc:
        raise NotFoundError("archive", str(archive)) from exc
    except (tarfile.TarError, EOFError, ValueError, TypeError, AttributeError) as exc:
        raise DecodeError(str(archive), f"is no archive of a data folder: {exc}") from exc


def unpack_folder(archive: Path, folder: Path) -> ArchiveDescription:
    """Makes a data folder of an archive, in one step: it is unpacked beside it and renamed. No member gets out of it.

    Raises:
        NotFoundError, DecodeError: as `describe_archive`; or the archive is cut or damaged.
        ConfigurationError: it is of another kind of machine, or of another PostgreSQL than this installation brings.
        ConflictError: the folder exists and is not empty.
        OSError: a file cannot be written.
    """
    found = describe_archive(archive)
    if found.machine != _machine():
        raise ConfigurationError(
            f"{archive} was made on {found.machine}, and this is {_machine()}: PostgreSQL's files fit one kind of "
            "machine only; move the definitions by `streamsched deploy`"
        )
    if found.postgres != MAJOR:
        raise ConfigurationError(
            f"{archive} holds data of PostgreSQL {found.postgres}, and this installation brings {MAJOR}: restore it "
            f"with streamsched {found.version}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConflictError(f"{folder} is not empty: name a new folder by --data-dir")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}.restoring")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            members = (each for each in tar if each.name != _DESCRIPTION)
            tar.extractall(unfinished, members, filter=_keep_private)
        adopt_folder(unfinished / POSTGRES)
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
    except (tarfile.TarError, EOFError) as exc:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise DecodeError(str(archive), f"is damaged: {exc}") from exc
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    return found


def _keep_private(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """A member with its mode, and with its owner's name where this process may give files away."""
    if not (member.isreg() or member.isdir() or member.issym()):
        raise tarfile.SpecialFileError(member)
    return tarfile.tar_filter(member, path)


def _machine() -> str:
    return f"{platform.system()} on {platform.machine()}"
