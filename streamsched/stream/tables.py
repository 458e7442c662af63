"""Faust tables whose changelog joins the turn, and the manager that has nothing to recover."""

from __future__ import annotations

import logging
from typing import Any

import faust
from faust.tables import TableManager

from streamsched.stream.turn import Turn


class ShardTable(faust.Table[bytes, bytes]):
    """A table of bytes: a write is one record in the turn's transaction (Faust's producer buffer costs 140 µs each)."""

    logger = logging.getLogger("faust.tables")
    turn: Turn
    partition: int
    #: The store's own dict and the changelog's name, looked up once: both stand behind several properties of Faust's.
    entries: dict[bytes, bytes]
    changelog_name: str

    def get(self, key: bytes, default: Any = None) -> Any:
        """The value, past the hooks."""
        return self.entries.get(key, default)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.turn.emit(self.changelog_name, self.partition, key, value)
        self.entries[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self.entries[key]
        self.turn.emit(self.changelog_name, self.partition, key, None)

    def restore(self, key: bytes, value: bytes | None) -> None:
        """Takes one changelog record, in order; a value of None removes the key. Writes no changelog."""
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value


class RestoredTables(TableManager):
    """Starts at once: Faust's own waits a second for agents to register more tables."""

    logger = logging.getLogger("faust.tables")

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


def table(app: faust.App, name: str, turn: Turn, partition: int) -> ShardTable:
    """A table of the app, empty, before it starts. Its values are bytes and final: never change one in place."""
    made: Any = app.Table(name, key_type=bytes, value_type=bytes, default=None)
    made.turn, made.partition = turn, partition
    made.entries, made.changelog_name = made.data.data, made.changelog_topic_name
    return made
