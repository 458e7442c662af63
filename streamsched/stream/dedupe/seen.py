"""Recognises repeated events: same id, source and event key within the horizon (ADR 0058)."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from datetime import timedelta
from typing import Final, Protocol

from streamsched.codec.events.native import LOG_ID
from streamsched.codec.records import known_ids as codec
from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.signals.home import key_hash
from streamsched.stream.dedupe.id_rows import IdRows
from streamsched.stream.dedupe.known_ids import KnownIds
from streamsched.stream.state_format import StateFormat

#: The number of rows of format 2 converted to digests in one turn.
_CONVERTED_PER_TURN: Final = 2_000


class IdTable(Protocol):
    """The table `seen`: rows of format 2 in memory, and a changelog for both formats."""

    @property
    def entries(self) -> MutableMapping[bytes, bytes]:
        """The rows in memory; a change writes no changelog."""
        ...

    @property
    def rows(self) -> MutableMapping[bytes, bytes]:
        """The same rows; a change is written to the changelog too."""
        ...

    def write(self, key: bytes, value: bytes | None) -> None:
        """Writes a record to the changelog only."""
        ...


class Deduplicator:
    """The events seen by one shard. Whether an event is a repeat depends only on the ids, sources, keys and log times
    of the records before it.
    """

    def __init__(self, table: IdTable, horizon: timedelta, state_format: StateFormat | None = None) -> None:
        """`state_format`: the format in which ids are written; by default the newest."""
        self._table = table
        self._horizon_ms = int(horizon.total_seconds() * 1000)
        self._state_format = state_format or StateFormat()
        self._ids = KnownIds(table.write, self._horizon_ms)
        self._rows = IdRows(table.rows, self._horizon_ms)
        #: The log time of the last event; 0 before the first one.
        self._now_ms = 0

    def __len__(self) -> int:
        return len(self._ids) + len(self._rows)

    async def rebuild_index(self) -> None:
        """Builds the index from the restored entries of the table, yielding to the loop so that heartbeats are sent."""
        entries = self._table.entries
        digests = {key: entries[key] for key in entries if not codec.is_row(key)}
        for key in digests:
            del entries[key]
        await self._ids.restore(digests)
        await self._rows.rebuild_index()

    def first_seen_ms(self, key: bytes, event_id: str, source: str, time_ms: int) -> int | None:
        """The log time (ms) at which a repeated event was first seen; None for a new event, which is added. An event
        whose id was derived from its position in the log is always new.
        """
        if event_id.startswith(LOG_ID):
            return None
        self._now_ms = time_ms
        digest, row, known = self._sighting(key, event_id.encode(), source.encode())
        if known is not None and known > time_ms - self._horizon_ms:
            return known
        self._ids.expire(time_ms)
        if self._state_format.digests:
            self._rows.expire(time_ms)
            self._ids.add(digest, time_ms, key_hash(key), now_ms=time_ms, known=known is not None)
        else:
            self._rows.add(row, time_ms)
        return None

    def knows(self, key: bytes, event_id: str, source: str, time_ms: int) -> bool:
        """Whether an event at this log time would be a repeat; adds nothing."""
        *_, known = self._sighting(key, event_id.encode(), source.encode())
        return known is not None and known > time_ms - self._horizon_ms

    def _sighting(self, key: bytes, event_id: bytes, source: bytes) -> tuple[bytes, bytes, int | None]:
        """The digest of an event, its row when there are rows, and the log time of its last sighting that counted."""
        digest = codec.digest(key, source, event_id)
        known = self._ids.first_ms(digest)
        if self._state_format.digests and not self._rows:
            return digest, b"", known
        row = SEPARATOR.join((key, source, event_id))
        if (first_ms := self._rows.first_ms(row)) is not None:
            known = first_ms if known is None else max(known, first_ms)
        return digest, row, known

    def flush(self) -> None:
        """Writes the ids added in this turn. In a format with digests, also converts some of the remaining rows."""
        if self._state_format.digests and self._rows and self._now_ms:
            for digest, time_ms, hashed in self._converted():
                known = self._ids.first_ms(digest)
                if known is None or known < time_ms:
                    self._ids.add(digest, time_ms, hashed, now_ms=self._now_ms, known=known is not None)
        self._ids.flush()

    def _converted(self) -> Iterator[tuple[bytes, int, int]]:
        for row, time_ms in self._rows.take(_CONVERTED_PER_TURN):
            digest, hashed = as_digest(row)
            yield digest, time_ms, hashed


def as_digest(row: bytes) -> tuple[bytes, int]:
    """The digest of a row's event, and the hash of its event key."""
    key, source, event_id = row.split(SEPARATOR)
    return codec.digest(key, source, event_id), key_hash(key)
