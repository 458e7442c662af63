"""The snapshots of an Iceberg table, read without Spark by the `pyiceberg` package.

Snapshots that expired before they were seen become one event together: the data files of the oldest snapshot that is
left whose data is newer than what was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)
from streamsched.process.extras import missing_extra_error
from streamsched.spark.tables.table_source import AddedFile, LogStep, TableCommit, added_partitions
from streamsched.spark.writes.write import run_named_by

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

#: What begins the names of what our writers say in the summary of a snapshot.
OURS: Final = "streamsched."
_DENIED: Final = (
    "permission",
    "forbidden",
    "accessdenied",
    "access denied",
    "access_denied",
    "403",
    "unauthorized",
    "401",
)
#: The commit may have been made.
_UNKNOWN: Final = ("CommitStateUnknownException", "OperationalError")
_NOT_THERE: Final = ("NoSuchTableError", "NoSuchNamespaceError", "NoSuchIcebergTableError", "NotFoundException")


def writer_facts(snapshot: Snapshot) -> dict[str, str]:
    """What a writer of ours said of a snapshot; empty of others."""
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return {name.removeprefix(OURS): value for name, value in summary.items() if name.startswith(OURS)}


@dataclass(frozen=True, slots=True)
class _Position:
    """After a snapshot; `snapshot` 0 and `sequence` 0 of a table without one. `table` is its UUID."""

    location: str
    table: str
    snapshot: int
    sequence: int

    def text(self) -> str:
        return orjson.dumps(asdict(self)).decode()


class IcebergSource:
    """The commits of an Iceberg table that others write, as `table_source.TableSource`; positions are snapshots."""

    def __init__(self, table: str | Table, *, catalog: str = "", options: Mapping[str, str] | None = None) -> None:
        """Does no I/O.

        Args:
            table: `namespace.table` of the catalog; without a catalog the table's folder, with `version-hint.text` in
                it as tables of Hadoop catalogs have, or a file `….metadata.json`; or a loaded table.
            catalog: a name that `pyiceberg` is configured for, by `.pyiceberg.yaml` or `PYICEBERG_CATALOG__…`.
            options: properties of the catalog or of the storage.
        """
        self._given = table
        self._catalog = catalog
        self._options = dict(options or {})

    @property
    def location(self) -> str:
        name = self._given if isinstance(self._given, str) else ".".join(self._given.name())
        return f"{self._catalog}:{name}" if self._catalog else name

    def open(self) -> Table:
        """The table as it is now."""
        with self.translate_errors():
            if not isinstance(self._given, str):
                return self._given.refresh()
            if self._catalog:
                from pyiceberg.catalog import load_catalog  # noqa: PLC0415 (comes with an extra)

                return load_catalog(self._catalog, **self._options).load_table(self._given)
            from pyiceberg.table import StaticTable  # noqa: PLC0415

            return StaticTable.from_metadata(self._given, self._options)

    def reopen(self) -> Table:
        """As `open`, another object than any before."""
        if isinstance(self._given, str):
            return self.open()
        with self.translate_errors():
            return self._given.catalog.load_table(self._given.name())

    def commit(self, table: Table, snapshot: Snapshot) -> TableCommit | None:
        """The commit of a snapshot; None when it added no data."""
        with self.translate_errors():
            return self._step(table, snapshot).commit

    def position(self, table: Table, snapshot: int | None) -> str:
        """The position after a snapshot; of None, before the first."""
        found = None if snapshot is None else table.snapshot_by_id(snapshot)
        return self._position_of(table, found)

    def head(self, back: int = 0) -> str:
        """The position of the newest snapshot, or of the one `back` snapshots before it."""
        table = self.open()
        snapshot = table.current_snapshot()
        for _ in range(back):
            snapshot = _parent(table, snapshot)
        return self._position_of(table, snapshot)

    def steps_after(self, position: str) -> Iterator[LogStep]:
        """The commits after the position, oldest first."""
        table = self.open()
        seen = self._decode_position(position, table)
        known = _ancestors(table, seen.snapshot) if seen is not None and seen.snapshot else set()
        chain: list[Snapshot] = []
        snapshot = table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id not in known:
            chain.append(snapshot)
            snapshot = _parent(table, snapshot)
        if not chain and seen is not None and self._position_of(table, table.current_snapshot()) != seen.text():
            yield LogStep(self._position_of(table, table.current_snapshot()), None, f"{self.location} was rolled back")
        with self.translate_errors():
            if chain and snapshot is None and not _is_first(chain[-1]):
                step = self._expired_step(table, chain[-1], seen)
                if step is not None:
                    yield step
            for each in reversed(chain):
                yield self._step(table, each)

    def added_files(self, table: Table, snapshot: Snapshot) -> list[tuple[AddedFile, DataFile]]:
        """The data files that a snapshot added."""
        from pyiceberg.manifest import ManifestEntryStatus  # noqa: PLC0415

        found: list[tuple[AddedFile, DataFile]] = []
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id in (None, snapshot.snapshot_id):
                        found += _data(table, manifest.partition_spec_id, entry)
        return found

    def _step(self, table: Table, snapshot: Snapshot) -> LogStep:
        position = self._position_of(table, snapshot)
        operation = "" if snapshot.summary is None else str(snapshot.summary.operation.value)
        files = [] if operation == "replace" else self.added_files(table, snapshot)
        if not files:
            return LogStep(position, None)
        partitions = added_partitions((file for file, _ in files), unpartitioned_key(snapshot.snapshot_id))
        name = f"iceberg-{snapshot.snapshot_id}-{table.metadata.table_uuid}"
        at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        return LogStep(position, TableCommit(name, at, partitions, run_named_by(writer_facts(snapshot))))

    def _expired_step(self, table: Table, oldest: Snapshot, seen: _Position | None) -> LogStep | None:
        """What snapshots added that are not kept: between the position and the oldest one that is."""
        since = 0 if seen is None else seen.sequence
        files: list[AddedFile] = []
        for manifest in oldest.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.snapshot_id != oldest.snapshot_id and (entry.sequence_number or 0) > since:
                    files += (file for file, _ in _data(table, manifest.partition_spec_id, entry))
        note = f"snapshots of {self.location} before {oldest.snapshot_id} expired before they were seen"
        last = _Position(
            self.location,
            str(table.metadata.table_uuid),
            oldest.parent_snapshot_id or 0,
            (oldest.sequence_number or 1) - 1,
        )
        if not files:
            return None
        partitions = added_partitions(files, unpartitioned_key(last.snapshot))
        name = f"iceberg-{since}-before-{oldest.snapshot_id}-{last.table}"
        return LogStep(last.text(), TableCommit(name, None, partitions), note)

    def _decode_position(self, position: str, table: Table) -> _Position | None:
        """The decoded position; None: begin with the oldest snapshot."""
        if not position:
            return None
        fields = Fields(loads(position.encode(), "$"))
        seen = _Position(
            fields.text("location"), fields.text("table"), fields.integer("snapshot"), fields.integer("sequence")
        )
        if seen.table == str(table.metadata.table_uuid):
            return seen
        if seen.location != self.location:
            raise ConflictError(
                f"the bookmark is of another table, {seen.location}, and not of {self.location}: delete it to begin "
                "with this one, or give each table a dataset of its own"
            )
        return None

    def _position_of(self, table: Table, snapshot: Snapshot | None) -> str:
        name, sequence = (0, 0) if snapshot is None else (snapshot.snapshot_id, snapshot.sequence_number or 0)
        return _Position(self.location, str(table.metadata.table_uuid), name, sequence).text()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raises the errors of `table_source.TableSource` in place of those of `pyiceberg`."""
        try:
            import pyiceberg.exceptions  # noqa: F401, PLC0415
        except ModuleNotFoundError as exc:
            raise missing_extra_error(exc) or exc from exc
        try:
            yield
        except StreamschedError:
            raise
        except (FileNotFoundError, NotADirectoryError) as exc:
            hint = "without a catalog, give its folder with metadata/version-hint.text, or a file ….metadata.json"
            raise NotFoundError("Iceberg table", self.location, hint=f"{hint}: {exc}") from exc
        except Exception as exc:
            # pyiceberg's errors have no common base class, and those of its storage are those of other packages
            why = f"{type(exc).__name__}: {' '.join(str(exc).split())[:500]}"
            if type(exc).__name__ in _NOT_THERE:
                raise NotFoundError("Iceberg table", self.location) from exc
            if isinstance(exc, PermissionError) or any(word in why.lower() for word in _DENIED):
                raise ConfigurationError(f"access to {self.location} is denied: {why}") from exc
            if isinstance(exc, OSError) or type(exc).__name__ in _UNKNOWN or "connect" in why.lower():
                raise UnavailableError(f"{self.location}: {why}") from exc
            raise ConfigurationError(f"{self.location} cannot be read as an Iceberg table: {why}") from exc


def unpartitioned_key(snapshot: int) -> str:
    """The key of what a snapshot added to a table without partition fields."""
    return f"snapshot={snapshot}"


def _is_first(snapshot: Snapshot) -> bool:
    """Whether no snapshot was before it; some tools remove the parent of the oldest one that they keep."""
    return snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 0) <= 1


def _parent(table: Table, snapshot: Snapshot | None) -> Snapshot | None:
    parent = None if snapshot is None else snapshot.parent_snapshot_id
    return None if parent is None else table.snapshot_by_id(parent)


def _ancestors(table: Table, snapshot: int) -> set[int]:
    """The snapshot and those before it that the table still has."""
    found = {snapshot}
    at = table.snapshot_by_id(snapshot)
    while (at := _parent(table, at)) is not None:
        found.add(at.snapshot_id)
    return found


def _data(table: Table, spec_id: int, entry: ManifestEntry) -> list[tuple[AddedFile, DataFile]]:
    """The entry's file, if it is one of rows and not of deletions."""
    from pyiceberg.manifest import DataFileContent  # noqa: PLC0415

    file = entry.data_file
    if file.content is not DataFileContent.DATA:
        return []
    spec, schema = table.specs()[spec_id], table.schema()
    values = {field.name: _value(field, file.partition[place], schema) for place, field in enumerate(spec.fields)}
    return [(AddedFile(values, file.file_size_in_bytes, file.record_count), file)]


def _value(field: Any, value: Any, schema: Any) -> str | None:
    """A partition value as Iceberg writes it in names of folders, such as 2026-01-07 of the transform `day`."""
    if value is None:
        return None
    return str(field.transform.to_human_string(schema.find_type(field.source_id), value))
