"""A folder of partitions that others write, without a log: found by listing it, on any storage that `fsspec` knows.

A partition is a folder with files directly in it. It is announced when it is complete, and again when its files have
changed since: new, replaced or appended ones. Names that begin with `_` or `.` are hidden, as in Spark and Hive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import ConfigurationError, ConflictError
from streamsched.domain.events.event import Partition
from streamsched.emit.draft import hive_values
from streamsched.ports.clock import Clock
from streamsched.spark.storage import FolderStorage, StoredFile
from streamsched.spark.tables.table_source import LogStep, TableCommit

#: The key of files that are in the folder itself.
ROOT_KEY: Final = "."
#: Least number of partitions between two positions; the position has all partitions, so it grows with them.
_MARK_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class Completeness:
    """When a partition is complete: all that are not None must hold.

    Attributes:
        marker: a file of this name is in its folder, or in one above it up to the watched one, and is not older than
            the newest file of the partition. Jobs of Spark write `_SUCCESS` into the folder they write.
        quiet: no file has changed for so long, by this machine's clock.
    """

    marker: str | None = None
    quiet: timedelta | None = None


class FolderSource:
    """New and changed partitions of a folder, as `table_source.TableSource`. A position has a digest of each partition
    that was announced.
    """

    def __init__(
        self,
        location: str,
        complete: Completeness,
        *,
        clock: Clock,
        rows: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Does no I/O.

        Args:
            location: a folder or URL, such as `s3://lake/logs`.
            rows: whether to read the number of rows from the footers of the files, which must be Parquet then.
            options: of the storage, by `fsspec`; without any, it reads the environment.
        """
        self._location = location.rstrip("/") or "/"
        self._complete = complete
        self._clock = clock
        self._rows = rows
        self._options = dict(options or {})

    @property
    def location(self) -> str:
        return self._location

    def head(self, back: int = 0) -> str:
        """The position after all partitions that are complete now; with `back`, before the first."""
        return self._position({} if back else {key: _digest(files) for key, files in self._partitions().items()})

    def steps_after(self, position: str) -> Iterator[LogStep]:
        """Partitions that are complete and new, or changed, in the order of their newest files."""
        known = self._known_partitions(position)
        found = self._partitions()
        kept = {key: digest for key, digest in known.items() if key in found}
        new = [key for key, files in found.items() if known.get(key) != _digest(files)]
        every = max(_MARK_EVERY, len(found) // 10)
        for number, key in enumerate(sorted(new, key=lambda key: (_newest_time(found[key]), key)), 1):
            kept[key] = _digest(found[key])
            mark = number == len(new) or number % every == 0
            yield LogStep(self._position(kept) if mark else None, self._commit(key, found[key]))

    def _commit(self, key: str, files: list[StoredFile]) -> TableCommit:
        rows = sum(self._rows_of(file.path) for file in files) if self._rows else None
        values = hive_values(key)
        partition = Partition(key, values, sum(file.size for file in files), rows)
        name = sha256(f"{self._location}\0{key}\0{_digest(files)}".encode()).hexdigest()[:32]
        return TableCommit(f"folder-{name}", _newest_time(files), (partition,))

    def _partitions(self) -> dict[str, list[StoredFile]]:
        """The files of each complete partition that is there now."""
        data: dict[str, list[StoredFile]] = {}
        markers: dict[str, datetime] = {}
        for file in self._storage().existing_files():
            folder, _, name = file.path.rpartition("/")
            if any(part.startswith(("_", ".")) for part in folder.split("/")):
                continue
            if name == self._complete.marker:
                markers[folder] = file.at
            elif not name.startswith(("_", ".")):
                data.setdefault(folder or ROOT_KEY, []).append(file)
        now = self._clock.now()
        return {key: files for key, files in data.items() if self._is_complete(key, files, markers, now)}

    def _is_complete(self, key: str, files: list[StoredFile], markers: Mapping[str, datetime], now: datetime) -> bool:
        newest = _newest_time(files)
        if self._complete.quiet is not None and now - newest < self._complete.quiet:
            return False
        if self._complete.marker is None:
            return True
        parts = [] if key == ROOT_KEY else key.split("/")
        above = ("/".join(parts[:length]) for length in range(len(parts) + 1))
        return any(folder in markers and markers[folder] >= newest for folder in above)

    def _storage(self) -> FolderStorage:
        return FolderStorage(self._location, self._options)

    def _rows_of(self, path: str) -> int:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        with self._storage().open_file(path) as file:
            try:
                return pq.read_metadata(file).num_rows
            except pa.ArrowInvalid as exc:
                raise ConfigurationError(f"{path} of {self._location} is not Parquet, so its rows are unknown") from exc

    def _position(self, digests: Mapping[str, str]) -> str:
        return orjson.dumps({"location": self._location, "partitions": dict(digests)}).decode()

    def _known_partitions(self, position: str) -> dict[str, str]:
        if not position:
            return {}
        fields = Fields(loads(position.encode(), "$"))
        if (before := fields.text("location")) != self._location:
            raise ConflictError(
                f"the bookmark is of another folder, {before}, and not of {self._location}: delete it to begin with "
                "this one, or give each folder a dataset of its own"
            )
        return fields.texts("partitions")


def _newest_time(files: list[StoredFile]) -> datetime:
    return max(file.at for file in files)


def _digest(files: list[StoredFile]) -> str:
    """Differs when a file was added, removed or replaced."""
    lines = (f"{file.path}\0{file.size}\0{file.at.timestamp()}" for file in files)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]
