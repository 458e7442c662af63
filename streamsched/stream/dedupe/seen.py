"""Recognises repeated events: same id, source and event key within the horizon (ADR 2)."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import timedelta
from typing import Protocol

from streamsched.codec.events.native import LOG_ID
from streamsched.codec.records import known_ids as codec
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.signals.home import key_hash
from streamsched.ports.broker import OLDER_LOG
from streamsched.stream.dedupe.known_ids import KnownIds


class IdTable(Protocol):
    """The table `seen`. Its content is in the index; `entries` are what was restored from the changelog."""

    @property
    def entries(self) -> MutableMapping[bytes, bytes]:
        """The rows in memory; a change writes no changelog."""
        ...

    def write(self, key: bytes, value: bytes | None) -> None:
        """Writes a record to the changelog only."""
        ...


class Deduplicator:
    """The events seen by one shard. Whether an event is a repeat depends only on the ids, sources, keys and log times
    of the records before it.
    """

    def __init__(self, table: IdTable, horizon: timedelta) -> None:
        self._table = table
        self._horizon_ms = int(horizon.total_seconds() * 1000)
        self._ids = KnownIds(table.write, self._horizon_ms)

    def __len__(self) -> int:
        return len(self._ids)

    async def rebuild_index(self) -> None:
        """Builds the index from the restored entries of the table, yielding to the loop so that heartbeats are sent.

        Raises:
            ConfigurationError: the changelog was written before release 0.1.0.
        """
        entries = self._table.entries
        digests = dict(entries)
        entries.clear()
        if any(codec.is_row(key) and digests[key].isdigit() for key in digests):
            raise ConfigurationError(OLDER_LOG)
        await self._ids.restore(digests)

    def first_seen_ms(self, key: bytes, event_id: str, source: str, time_ms: int) -> int | None:
        """The log time (ms) at which a repeated event was first seen; None for a new event, which is added. An event
        whose id was derived from its position in the log is always new.
        """
        if event_id.startswith(LOG_ID):
            return None
        digest = codec.digest(key, source.encode(), event_id.encode())
        known = self._ids.first_ms(digest)
        if known is not None and known > time_ms - self._horizon_ms:
            return known
        self._ids.expire(time_ms)
        self._ids.add(digest, time_ms, key_hash(key), now_ms=time_ms, known=known is not None)
        return None

    def knows(self, key: bytes, event_id: str, source: str, time_ms: int) -> bool:
        """Whether an event at this log time would be a repeat; adds nothing."""
        known = self._ids.first_ms(codec.digest(key, source.encode(), event_id.encode()))
        return known is not None and known > time_ms - self._horizon_ms

    def flush(self) -> None:
        """Writes the ids added in this turn."""
        self._ids.flush()
