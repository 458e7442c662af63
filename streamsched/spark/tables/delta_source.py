"""The log of a Delta Lake table, read without Spark: the JSON files of `_delta_log`, by the `deltalake` package.

Versions whose files the table's own cleanup has deleted become one event together: the files that were added since the
last version that was seen, by a comparison of the table's files. A compaction in between may count in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from streamsched.codec.delta import DeltaCommit, commit_digest, decode_commit
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import ConfigurationError, ConflictError, DecodeError, NotFoundError, UnavailableError
from streamsched.process.extras import missing_extra_error
from streamsched.spark.tables.table_source import AddedFile, LogStep, TableCommit, added_partitions
from streamsched.spark.writes.write import run_named_by

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

_LOG: Final = "_delta_log"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_COLOUR: Final = re.compile(r"\x1b\[\d*m")
_STACK: Final = re.compile(r" 0: <unknown>")
_DENIED: Final = ("permission", "forbidden", "accessdenied", "access denied", "403", "unauthorized", "401")
#: Errors of `deltalake` that are no `DeltaError`: of local files, and of arguments such as an unknown scheme.
_OTHERS: Final = (OSError, ValueError)


@dataclass(frozen=True, slots=True)
class _Position:
    """After a version. `digest` is "" where the version's file was not there any more; `at`: milliseconds."""

    location: str
    version: int
    digest: str
    at: int | None

    def text(self) -> str:
        return orjson.dumps(asdict(self)).decode()


class DeltaSource:
    """The commits of a Delta table that others write, as `table_source.TableSource`; positions are versions."""

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        """Does no I/O. `storage_options` are those of `deltalake`; without any, it reads the environment, such as
        `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`.
        """
        self._location = location.rstrip("/")
        self._options = dict(storage_options or {})
        self._folder: FileSystem | None = None

    @property
    def location(self) -> str:
        return self._location

    @property
    def options(self) -> Mapping[str, str]:
        """Of the storage."""
        return self._options

    @property
    def spark_root(self) -> str:
        """The URI of the table's folder for Spark."""
        if _URL.match(self._location):
            return self._location.replace("s3://", "s3a://", 1)
        return f"file://{Path(self._location).absolute()}"

    def make_folder(self) -> None:
        """Creates the table's folder, where the storage has folders."""
        if not _URL.match(self._location) or self._location.startswith("file://"):
            Path(self._location.removeprefix("file://")).mkdir(parents=True, exist_ok=True)

    def version(self, version: int) -> DeltaCommit | None:
        """One version of the log; None when its file is not there any more."""
        raw = self._raw(version)
        return None if raw is None else decode_commit(version, raw, self.open().metadata().partition_columns)

    def commit(self, version: int) -> TableCommit | None:
        """The commit of a version; None when it added no data, or its file is not there any more."""
        raw, found = self._raw(version), self.version(version)
        return None if raw is None or found is None else self._step(found, raw).commit

    def open(self, version: int | None = None) -> DeltaTable:
        """The table, by default its newest version."""
        with self.translate_errors():
            from deltalake import DeltaTable  # noqa: PLC0415 (comes with an extra)

            return DeltaTable(self._location, version, self._options)

    def head(self, back: int = 0) -> str:
        """The position of the newest version, or of the one `back` versions before it."""
        return self.position(self.open().version() - back)

    def position(self, version: int) -> str:
        """The position after a version; "" before the first."""
        return "" if version < 0 else self._position(version, self._raw(version)).text()

    def steps_after(self, position: str) -> Iterator[LogStep]:
        """The commits after the position, oldest first."""
        seen, kept = self._decode_position(position)
        version = -1 if seen is None else seen.version
        columns: Sequence[str] | None = None
        while True:
            raw = self._raw(version + 1)
            if raw is None and kept:
                return  # the cleanup of a log deletes old files first, so nothing is beyond a missing one
            if columns is None:
                table = self.open()
                columns = table.metadata().partition_columns
            if raw is None:
                if self.open().version() <= version:
                    return
                step, version = self._step_over_cleanup(version, seen)
                yield step
                continue
            version, kept = version + 1, True
            yield self._step(decode_commit(version, raw, columns), raw)

    def read(self, version: int, digest: str) -> DeltaCommit:
        """One version.

        Raises:
            NotFoundError: its file was deleted, or the table was made anew.
        """
        raw = self._raw(version)
        if raw is None or commit_digest(raw) != digest:
            why = "the table's log does not reach back to it" if raw is None else "the table was made anew since"
            raise NotFoundError("version", f"{version} of {self._location}", hint=why)
        return decode_commit(version, raw, self.open().metadata().partition_columns)

    def filesystem(self) -> FileSystem:
        """The table's folder."""
        if self._folder is None:
            with self.translate_errors():
                from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415
                from pyarrow.fs import PyFileSystem  # noqa: PLC0415

                self._folder = PyFileSystem(DeltaStorageHandler(self._location, self._options))
        return self._folder

    def _step(self, commit: DeltaCommit, raw: bytes) -> LogStep:
        position = self._position(commit.version, raw, commit).text()
        if not commit.added:
            return LogStep(position, None)
        files = (AddedFile(file.values, file.bytes, file.rows) for file in commit.added)
        name = f"delta-{commit.version}-{commit.digest}"
        partitions = added_partitions(files, unpartitioned_key(commit.version))
        return LogStep(position, TableCommit(name, commit.at, partitions, run_named_by(commit.streamsched)))

    def _step_over_cleanup(self, version: int, seen: _Position | None) -> tuple[LogStep, int]:
        """One step from `version` to the oldest checkpoint after it, and its version."""
        upto = self._checkpoint_after(version)
        table = self.open(upto)
        files = _files(table)
        try:
            before = set(_files(self.open(version))) if version >= 0 else set()
            new = {path: file for path, (file, _) in files.items() if path not in before}
        except (NotFoundError, UnavailableError):
            since = seen.at if seen is not None else None
            new = {path: file for path, (file, modified) in files.items() if since is None or modified > since}
        position = _Position(self._location, upto, "", max((at for _, at in files.values()), default=None)).text()
        note = f"versions {version + 1} to {upto} of {self._location} were cleaned up before they were seen"
        if not new:
            return LogStep(position, None, note), upto
        name = f"delta-{version + 1}-{upto}-{table.metadata().id}"
        commit = TableCommit(name, None, added_partitions(new.values(), unpartitioned_key(upto)))
        return LogStep(position, commit, note), upto

    def _checkpoint_after(self, version: int) -> int:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        with self.translate_errors():
            names = [info.base_name for info in self.filesystem().get_file_info(FileSelector(_LOG))]
        kept = sorted(int(name[:20]) for name in names if ".checkpoint." in name and name[:20].isdigit())
        found = next((each for each in kept if each > version), None)
        if found is None:
            raise NotFoundError("version", f"{version + 1} of {self._location}", hint="and no checkpoint follows it")
        return found

    def _decode_position(self, position: str) -> tuple[_Position | None, bool]:
        """The decoded position, None to begin with the first version; and whether its file is still there."""
        if not position:
            return None, False
        fields = Fields(loads(position.encode(), "$"))
        seen = _Position(
            fields.text("location"),
            fields.integer("version"),
            fields.optional_text("digest") or "",
            fields.optional_integer("at"),
        )
        raw = self._raw(seen.version)
        if raw is not None and (not seen.digest or commit_digest(raw) == seen.digest):
            return seen, True
        if raw is None and seen.version <= self.open().version():
            return seen, False
        if seen.location != self._location:
            raise ConflictError(
                f"the bookmark is of another table, {seen.location}, and not of {self._location}: delete it to begin "
                "with this one, or give each table a dataset of its own"
            )
        return None, False

    def _position(self, version: int, raw: bytes | None, commit: DeltaCommit | None = None) -> _Position:
        if raw is None:
            return _Position(self._location, version, "", None)
        at = (commit or decode_commit(version, raw)).at
        return _Position(
            self._location, version, commit_digest(raw), None if at is None else int(at.timestamp() * 1000)
        )

    def _raw(self, version: int) -> bytes | None:
        """The file of a version; None when it is not there."""
        with self.translate_errors():
            try:
                with self.filesystem().open_input_file(f"{_LOG}/{version:020d}.json") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raises the errors of `table_source.TableSource` in place of those of `deltalake`."""
        try:
            from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415
        except ModuleNotFoundError as exc:
            raise missing_extra_error(exc) or exc from exc
        try:
            yield
        except TableNotFoundError as exc:
            hint = "there is no _delta_log with a version in it, or it may not be read"
            raise NotFoundError("Delta table", self._location, hint=hint) from exc
        except (DeltaError, *_OTHERS) as exc:
            why = _STACK.split(" ".join(_COLOUR.sub("", str(exc)).split()))[0][:500]
            if isinstance(exc, PermissionError) or any(word in why.lower() for word in _DENIED):
                raise ConfigurationError(f"access to {self._location} is denied: {why}") from exc
            if "not a directory" in why.lower():
                raise NotFoundError("Delta table", self._location, hint="it is a file") from exc
            if "json error" in why.lower():
                raise DecodeError("$", f"the log of {self._location} is damaged: {why}") from exc
            if isinstance(exc, ValueError):
                raise ConfigurationError(f"{self._location} cannot be opened: {why}") from exc
            raise UnavailableError(f"{self._location}: {why}") from exc


def unpartitioned_key(version: int) -> str:
    """The key of what a version added to a table without partition columns."""
    return f"version={version}"


def added_files(table: DeltaTable) -> dict[str, AddedFile]:
    """The table's files at its version, by path as the log has it: percent-encoded."""
    return {path: file for path, (file, _) in _files(table).items()}


def _files(table: DeltaTable) -> dict[str, tuple[AddedFile, int]]:
    """The table's files at its version, with the time of their last change in milliseconds."""
    import pyarrow as pa  # noqa: PLC0415

    found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    columns = table.metadata().partition_columns
    return {
        row["path"]: (
            AddedFile(
                {name: _text((row.get("partition") or {}).get(name)) for name in columns},
                row["size_bytes"],
                row.get("num_records"),
            ),
            _milliseconds(row["modification_time"]),
        )
        for row in found
    }


def _milliseconds(at: Any) -> int:
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000) if isinstance(at, datetime) else int(at)


def _text(value: Any) -> str | None:
    """A partition value as the log writes it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S") + (f".{value.microsecond:06d}" if value.microsecond else "")
        case date():
            return value.isoformat()
        case _:
            return str(value)
