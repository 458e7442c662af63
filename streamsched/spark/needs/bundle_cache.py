"""The bundles on this machine: fetched once, checked by their digest, unpacked into a folder named by it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path
from typing import BinaryIO, Final

from streamsched.domain.errors import ConfigurationError, InvalidError, NotFoundError
from streamsched.domain.programs.bundle import check_digest
from streamsched.process.bundle_archive import unpack
from streamsched.process.os_user import OsUser, private_folder
from streamsched.store.programs.bundles import BundleStore

#: Seconds after which a folder that no run has used is removed, and what a killed runner has not completed.
_KEEP_S: Final = 30 * 86_400.0
_INCOMPLETE_S: Final = 86_400.0


class BundleCache:
    """Several processes may use one folder at a time.

    Args:
        folder: where the bundles are.
        most_bytes: largest bundle.
    """

    def __init__(self, store: BundleStore, folder: Path, *, most_bytes: int) -> None:
        self._store = store
        self._folder = folder
        self._most = most_bytes

    async def folder(self, namespace: str, digest: str, user: OsUser | None = None) -> Path:
        """The folder with the files of the bundle: of this process's user, or one that `user` can read and not change.

        Raises:
            ConfigurationError: there is no such bundle, it is damaged, or it cannot be written here.
            UnavailableError: PostgreSQL is unavailable.
        """
        check_digest(digest)
        folder = self._folder if user is None else self._folder / user.name
        made = folder / digest
        try:
            if not made.is_dir():
                await self._fetch(namespace, digest, made, user)
            await asyncio.to_thread(os.utime, made)  # when it was last used
        except NotFoundError as exc:
            raise ConfigurationError(f"bundle {digest} does not exist in namespace {namespace}: deploy again") from exc
        except InvalidError as exc:
            raise ConfigurationError(f"bundle {digest} is damaged: {exc}") from exc
        except OSError as exc:
            raise ConfigurationError(f"bundle {digest} cannot be unpacked here: {exc}") from exc
        return made

    async def _fetch(self, namespace: str, digest: str, made: Path, user: OsUser | None) -> None:
        await asyncio.to_thread(self._begin, made.parent, user)
        archive = made.parent / f".{digest}.{os.getpid()}.tar"
        unpacked = made.parent / f".{digest}.{os.getpid()}"
        try:
            with archive.open("w+b") as file:
                found = hashlib.sha256()
                async for chunk in self._store.read(namespace, digest):
                    found.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
                if found.hexdigest() != digest:
                    raise ConfigurationError(f"bundle {digest} is damaged: its content has digest {found.hexdigest()}")
                await asyncio.to_thread(self._unpack, file, unpacked, made, shared=user is not None)
        finally:
            archive.unlink(missing_ok=True)
            await asyncio.to_thread(shutil.rmtree, unpacked, ignore_errors=True)

    def _begin(self, folder: Path, user: OsUser | None) -> None:
        private_folder(self._folder, passable=True)
        if user is not None:
            folder.mkdir(mode=0o700, exist_ok=True)
            os.chown(folder, -1, user.gid, follow_symlinks=False)
            folder.chmod(0o750)
        os.utime(folder)
        now = folder.stat().st_mtime  # by the clock of the file system, as the other times
        for each in folder.iterdir():
            try:
                unused_s = now - each.stat().st_mtime
            except OSError:  # removed by another process
                continue
            if unused_s > (_INCOMPLETE_S if each.name.startswith(".") else _KEEP_S):
                shutil.rmtree(each, ignore_errors=True)
                each.unlink(missing_ok=True) if each.is_file() else None

    def _unpack(self, archive: BinaryIO, unpacked: Path, made: Path, *, shared: bool) -> None:
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(mode=0o700)
        unpack(archive, unpacked, most_bytes=self._most, shared=shared)
        try:
            unpacked.rename(made)
        except OSError:
            if not made.is_dir():  # else another run was faster
                raise
