"""Writes to an Iceberg table: data files in its folder, and a snapshot that names them.

A snapshot's summary has the commit id, by which a repeated attempt finds it. A fence is a snapshot without files: it
moves the branch, and every commit is conditional on where the branch was when it was checked. A commit that finds the
branch moved is checked again; pyiceberg's own retries, which would rebase it unchecked, are off. As long as the
snapshots are kept, nothing is forgotten; a write during which they expired fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from streamsched.domain.errors import ConfigurationError, ConflictError, InvalidError, NotFoundError
from streamsched.spark.manifest import Mode
from streamsched.spark.tables.iceberg_source import OURS, IcebergSource, writer_facts
from streamsched.spark.tables.rows import Rows, stage_for_iceberg
from streamsched.spark.tables.table_log import WriteCallback, WritePhase, WrittenCommit
from streamsched.spark.writes.write import Author, Write, highest_fence

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot

_RETRIES: Final = "commit.retry.num-retries"
_NAME_MAPPING: Final = "schema.name-mapping.default"


class IcebergLog:
    """Writes commits into the snapshots of an Iceberg table, as `table_log.TableLog`."""

    def __init__(self, source: IcebergSource, rows: Rows) -> None:
        """Does no I/O."""
        self._source = source
        self._rows = rows

    def fence(self, author: Author) -> Sequence[Author]:
        """Has every later commit of an earlier attempt fail; returns the authors of the job's commits."""
        while True:
            table = self._open()
            entries = list(_entries(table))
            fence = _fence(author.job, entries)
            author.check_fence(fence)
            if fence == author.attempt or self._add(table, {**_author_properties(author), "fence": "true"}, []):
                return [each for _, said in entries if "commit" in said and (each := _author(said)) is not None]

    def find(self, commit: str) -> WrittenCommit | None:
        """What the commit with this id wrote; None when it is not there."""
        return self._find(self._open(), commit)

    def publish(self, write: Write, mode: Mode, watch: WriteCallback) -> WrittenCommit | None:
        """Commits the files of the write in one step; None when there was nothing to commit. A commit id that is there
        already is not committed again.
        """
        table = self._open()
        began = table.current_snapshot()
        with self._write_files(table, write, mode) as files:
            watch(WritePhase.STAGED)
            if not files:
                return None
            while True:
                table = self._open()
                entries = list(_entries(table))
                self._check_history(entries, began)
                if (found := self._find(table, write.commit)) is not None:
                    return found
                if write.author is not None:
                    write.author.check_fence(_fence(write.author.job, entries))
                watch(WritePhase.CHECKED)
                said = {"commit": write.commit, "work": write.work, "mode": str(mode)}
                if write.author is not None:
                    said |= _author_properties(write.author)
                write.kept = True
                if self._add(table, said, files, replace=mode is Mode.OVERWRITE_PARTITIONS):
                    watch(WritePhase.COMMITTED)
                    found = self._find(self._open(), write.commit)
                    if found is None:
                        raise NotFoundError(
                            "snapshot", f"of commit {write.commit}", hint="it expired, or was rolled back"
                        )
                    return found
                write.kept = False

    def _open(self) -> Table:
        """The table as it is now, whose commits are not retried."""
        table = self._source.reopen()
        table.metadata.properties[_RETRIES] = "0"
        return table

    def _add(self, table: Table, said: Mapping[str, str], files: Sequence[DataFile], *, replace: bool = False) -> bool:
        """Adds a snapshot to the branch as it was when the table was opened; False when it has moved."""
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415

        with self._source.translate_errors():
            try:
                transaction = table.transaction()
                if replace:
                    _delete(transaction, table, files)
                if self._rows.spark is not None and files and _NAME_MAPPING not in table.metadata.properties:
                    mapping = table.schema().name_mapping.model_dump_json()
                    transaction.set_properties({_NAME_MAPPING: mapping})
                properties = {f"{OURS}{name}": value for name, value in said.items()}
                with transaction.update_snapshot(snapshot_properties=properties).fast_append() as append:
                    for file in files:
                        append.append_data_file(file)
                transaction.commit_transaction()
            except CommitFailedException:
                return False
            except NotImplementedError as exc:
                raise ConfigurationError(
                    f"{self._source.location} is read without a catalog: to write it, give the catalog's name"
                ) from exc
        return True

    def _find(self, table: Table, commit: str) -> WrittenCommit | None:
        for snapshot, said in _entries(table):
            if said.get("commit") != commit:
                continue
            found = self._source.commit(table, snapshot)
            if found is None:
                return None
            before = self._source.position(table, snapshot.parent_snapshot_id)
            return WrittenCommit(found, Mode(said["mode"]), _author(said), said["work"], before)
        return None

    def _check_history(self, entries: Sequence[tuple[Snapshot, Any]], began: Snapshot | None) -> None:
        """Raises:
        ConflictError: the log has not everything since the write began.
        """
        known = {snapshot.snapshot_id for snapshot, _ in entries}
        oldest = entries[-1][0] if entries else None
        complete = oldest is None or oldest.parent_snapshot_id is None
        if (began is None and not complete) or (began is not None and began.snapshot_id not in known):
            raise ConflictError(
                f"snapshots of {self._source.location} expired or were rolled back while this write ran, so it is not "
                "known whether a later attempt has fenced; nothing was committed"
            )

    @contextmanager
    def _write_files(self, table: Table, write: Write, mode: Mode) -> Iterator[list[DataFile]]:
        """The rows as data files. When the block ends without a commit, they are deleted."""
        self._check(table, mode)
        files: list[DataFile] = []
        try:
            files = self._files(table, write)
            yield files
        finally:
            if not write.kept:
                for file in files:
                    with suppress(OSError):
                        table.io.delete(file.file_path)

    def _files(self, table: Table, write: Write) -> list[DataFile]:
        from pyiceberg.io.pyarrow import (  # noqa: PLC0415
            _check_pyarrow_schema_compatible,
            _dataframe_to_data_files,
            parquet_files_to_data_files,
        )

        if self._rows.arrow is not None:
            rows = self._rows.arrow
            _refusal(lambda: _check_pyarrow_schema_compatible(table.schema(), rows.schema))
            if not rows.num_rows:
                return []
            with self._source.translate_errors():
                return list(
                    _dataframe_to_data_files(table_metadata=table.metadata, df=rows, io=table.io, write_uuid=uuid4())
                )
        columns = [table.schema().find_column_name(field.source_id) or "" for field in table.spec().fields]
        paths = stage_for_iceberg(self._rows, f"{table.location()}/data/{write.work}", columns)
        with self._source.translate_errors():
            found = _refusal(lambda: list(parquet_files_to_data_files(table.io, table.metadata, iter(paths))))
        return [file for file in found if file.record_count]

    def _check(self, table: Table, mode: Mode) -> None:
        from pyiceberg.transforms import IdentityTransform  # noqa: PLC0415

        place, fields = self._source.location, table.spec().fields
        if mode is Mode.OVERWRITE_PARTITIONS and not fields:
            raise InvalidError("$.mode", f"{place} has no partitions to overwrite")
        if (mode is Mode.OVERWRITE_PARTITIONS or self._rows.spark is not None) and not all(
            isinstance(field.transform, IdentityTransform) for field in fields
        ):
            raise ConfigurationError(
                f"{place} is partitioned by transforms, by which only Arrow tables are appended: write it by Iceberg's "
                "own means, and call announce() then"
            )


def _entries(table: Table) -> Iterator[tuple[Snapshot, Mapping[str, str]]]:
    """The snapshots of the branch that are kept, newest first, with what our writers said in their summaries."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot, writer_facts(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def _fence(job: str, entries: Sequence[tuple[Snapshot, Mapping[str, str]]]) -> int:
    return highest_fence(job, (each for _, said in entries if "fence" in said and (each := _author(said)) is not None))


def _author_properties(author: Author) -> dict[str, str]:
    ordered = "true" if author.ordered else "false"
    return {"job": author.job, "attempt": str(author.attempt), "ordinal": str(author.ordinal), "ordered": ordered}


def _author(said: Mapping[str, str]) -> Author | None:
    if "job" not in said:
        return None
    return Author(said["job"], int(said["attempt"]), int(said["ordinal"]), said["ordered"] == "true")


def _delete(transaction: Transaction, table: Table, files: Sequence[DataFile]) -> None:
    """Deletes the rows in the partitions of these files."""
    import warnings  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no row matched
        transaction.delete(_partitions_of(table, files))


def _partitions_of(table: Table, files: Sequence[DataFile]) -> BooleanExpression:
    from pyiceberg.expressions import And, EqualTo, IsNull, Or  # noqa: PLC0415

    names = [table.schema().find_column_name(field.source_id) or "" for field in table.spec().fields]
    found: list[BooleanExpression] = []
    for values in {tuple(file.partition[place] for place in range(len(names))) for file in files}:
        parts = [
            IsNull(name) if value is None else EqualTo(name, value)  # pyright: ignore[reportCallIssue]
            for name, value in zip(names, values, strict=True)
        ]
        found.append(reduce(And, parts))
    return reduce(Or, found)


def _refusal(check: Any) -> Any:
    """Raises:
    InvalidError: pyiceberg refuses the rows.
    """
    try:
        return check()
    except ValueError as exc:
        raise InvalidError("$.rows", f"do not fit to the table: {' '.join(str(exc).split())[:500]}") from exc
