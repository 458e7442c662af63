"""Faust tables whose changelog records are part of the shard's turn, and a table manager that recovers nothing."""

from __future__ import annotations

import logging
from typing import Any

import faust
from faust.tables import TableManager

from streamsched.stream.turn import Turn


class ShardTable(faust.Table[bytes, bytes]):
    """A table of bytes. A write adds one record to the turn's transaction; through Faust's producer buffer it would
    cost 140 µs. Values are final: replace a value, never change it in place.
    """

    logger = logging.getLogger("faust.tables")
    turn: Turn
    partition: int
    #: The dict of Faust's store and the changelog's name, resolved once: Faust reaches both through several properties.
    entries: dict[bytes, bytes]
    changelog_name: str

    def get(self, key: bytes, default: Any = None) -> Any:
        """The value, without Faust's hooks."""
        return self.entries.get(key, default)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.turn.emit(self.changelog_name, self.partition, key, value)
        self.entries[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self.entries[key]
        self.turn.emit(self.changelog_name, self.partition, key, None)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Writes a record to the changelog only; `entries` does not change."""
        self.turn.emit(self.changelog_name, self.partition, key, value)

    def restore(self, key: bytes, value: bytes | None) -> None:
        """Applies one changelog record, in log order; a value of None removes the key. Writes no changelog."""
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value


class NoRecovery(TableManager):
    """Starts without recovery, and without Faust's pause of one second for tables that agents register late."""

    logger = logging.getLogger("faust.tables")

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


def shard_table(app: faust.App, name: str, turn: Turn, partition: int) -> ShardTable:
    """Declares a table of an app that has not started; it is empty. Its changelog topic is named by Faust: app id,
    `name` and `changelog`.
    """
    table: Any = app.Table(name, key_type=bytes, value_type=bytes, default=None)
    table.turn, table.partition = turn, partition
    table.entries, table.changelog_name = table.data.data, table.changelog_topic_name
    return table
