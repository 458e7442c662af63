"""Files on any storage that `fsspec` knows, with the one operation that commits need: to create a file if it is absent.

| storage | how a file is created if it is absent |
|---|---|
| `file` | written beside and linked to its name |
| `s3`, `gs`, `abfs` and others whose driver can | a conditional request, such as `If-None-Match: *` |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from streamsched.domain.errors import ConfigurationError, NotFoundError, UnavailableError
from streamsched.process.extras import missing_extra_error
from streamsched.process.files import create_atomically

#: Storages whose drivers create a file only if it is absent, when they are asked to.
_CONDITIONAL: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
#: Files that are read by one call of `read_all`.
_AT_A_TIME: Final = 1000
#: Where storages say when a file was last changed.
_TIMES: Final = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file: its path relative to the storage's folder, its bytes, and when it was last changed (UTC)."""

    path: str
    size: int
    at: datetime


class FolderStorage:
    """A folder of a storage. Paths are relative to it. Every method raises `NotFoundError` for what is missing,
    `ConfigurationError` when access is denied, `UnavailableError` when the storage does not answer.
    """

    def __init__(self, location: str, options: Mapping[str, Any] | None = None) -> None:
        """Opens no connection. `options` are those of `fsspec`; without any, it reads the environment.

        Raises:
            ConfigurationError: the storage is unknown, or a package is missing.
        """
        try:
            import fsspec  # noqa: PLC0415 (comes with an extra)

            known = {"use_listings_cache": False, **(options or {})}
            self._fs, root = fsspec.core.url_to_fs(location, **known)
        except ModuleNotFoundError as exc:
            raise missing_extra_error(exc) or ConfigurationError(f"{location} needs another package: {exc}") from exc
        except (ImportError, ValueError) as exc:
            raise ConfigurationError(f"{location} cannot be opened: {exc}") from exc
        self.location = location.rstrip("/")
        self._root = root.rstrip("/")
        protocols = self._fs.protocol if isinstance(self._fs.protocol, tuple) else (self._fs.protocol,)
        self.is_local = "file" in protocols
        self.creates_if_absent = self.is_local or bool(_CONDITIONAL & set(protocols))

    def read(self, path: str) -> bytes:
        with self._translate_errors(path):
            return self._fs.cat_file(f"{self._root}/{path}")

    def read_all(self, paths: Sequence[str]) -> list[bytes]:
        """The contents of these files, in their order; many at a time where the storage can."""
        found: list[bytes] = []
        for start in range(0, len(paths), _AT_A_TIME):
            some = [f"{self._root}/{path}" for path in paths[start : start + _AT_A_TIME]]
            with self._translate_errors(paths[start]):
                contents = self._fs.cat(some, on_error="return")
            for path, name in zip(paths[start:], some, strict=False):
                with self._translate_errors(path):
                    if isinstance(content := contents[name], Exception):
                        raise content
                    found.append(content)
        return found

    def put(self, path: str, content: bytes) -> None:
        """Creates or replaces a file."""
        with self._translate_errors(path):
            if self.is_local:
                self._fs.makedirs(f"{self._root}/{path}".rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(f"{self._root}/{path}", content)

    def create(self, path: str, content: bytes) -> bool:
        """Creates a file; False if there is one, with whatever content. When it fails, the file may exist."""
        with self._translate_errors(path):
            if self.is_local:
                target = Path(f"{self._root}/{path}")
                target.parent.mkdir(parents=True, exist_ok=True)
                return create_atomically(target, content)
            try:
                self._fs.pipe_file(f"{self._root}/{path}", content, mode="create")
            except FileExistsError:
                return False
            return True

    def files(self, folder: str = "") -> list[StoredFile]:
        """All files below a folder, by path; none when there is no such folder."""
        try:
            return self.existing_files(folder)
        except NotFoundError:
            return []

    def existing_files(self, folder: str = "") -> list[StoredFile]:
        """As `files`, for a folder that must exist."""
        prefix = f"{self._root}/"
        top = f"{prefix}{folder}".rstrip("/")
        with self._translate_errors(folder):
            self._fs.ls(top, detail=False)  # unlike `find`, it says that the folder is missing or may not be read
            if self.is_local:
                if self._fs.isfile(top):
                    raise NotADirectoryError(top)
                walked = self._fs.walk(top, detail=True, on_error="raise")
                found = {info["name"]: info for _, _, files in walked for info in files.values()}
            else:
                found = self._fs.find(top, detail=True)
        listed = [(path.removeprefix(prefix), info) for path, info in found.items() if info.get("type") == "file"]
        return sorted((StoredFile(path, int(info.get("size") or 0), _time(info)) for path, info in listed), key=_path)

    def delete(self, paths: list[str]) -> None:
        """Deletes files; those that are gone are no error."""
        if paths:
            with self._translate_errors(paths[0]), suppress(FileNotFoundError):
                self._fs.rm([f"{self._root}/{path}" for path in paths])

    @contextmanager
    def open_file(self, path: str) -> Iterator[BinaryIO]:
        """A file to read at any place."""
        with self._translate_errors(path), self._fs.open(f"{self._root}/{path}", "rb") as file:
            yield file

    @contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as exc:
            raise NotFoundError("file", f"{self.location}/{path}", hint=str(exc)) from exc
        except PermissionError as exc:
            raise ConfigurationError(f"access to {self.location}/{path} is denied: {exc}") from exc
        except NotADirectoryError as exc:
            raise ConfigurationError(f"{self.location}/{path} is not a folder") from exc
        except OSError as exc:
            raise UnavailableError(f"{self.location}/{path}: {exc}") from exc
        except Exception as exc:
            if type(exc).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp", "gcsfs", "azure"):
                raise UnavailableError(f"{self.location}/{path}: {type(exc).__name__}: {exc}") from exc
            raise


def _path(file: StoredFile) -> str:
    return file.path


def _time(info: Mapping[str, Any]) -> datetime:
    at = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    if at is None:
        raise ConfigurationError(f"the storage does not say when {info.get('name')} was changed")
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    if isinstance(at, int | float):
        at = datetime.fromtimestamp(at, UTC)
    return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
