"""What careless authors would have written: four bugs by name, so that the suite can show that it finds them.

The product has no switches for this: a role's test process wraps its broker, or replaces a method of the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never
from uuid import uuid4

from streamsched.domain.errors import UnavailableError
from streamsched.log.topics import POSITION_KEY, RELAY_POSITION
from streamsched.ports.broker import Broker, Outgoing, Writer
from streamsched.stream.app import ShardApp
from streamsched.stream.shards.shard import Shard
from tests.simulation.log import Bug
from tests.support.broker_proxy import BrokerThrough

#: The bugs that can be had here.
BUGS: Final = (Bug.POSITION_APART, Bug.NO_FENCE, Bug.TABLE_KEPT, Bug.OUTBOX_POSITION)


class BuggedBroker(BrokerThrough):
    """Another broker, whose writers have the bug."""

    def __init__(self, broker: Broker, bug: Bug) -> None:
        super().__init__(broker)
        self._bug = bug

    async def writer(self, name: str) -> Writer:
        """Without a fence, every writer has a name of its own, and fences no other."""
        named = f"{name}-{uuid4().hex[:8]}" if self._bug is Bug.NO_FENCE else name
        return _Writer(await self.inner.writer(named), self._bug)


class _Writer:
    def __init__(self, writer: Writer, bug: Bug) -> None:
        self._writer = writer
        self._bug = bug

    async def commit(self, records: Sequence[Outgoing]) -> None:
        match self._bug:
            case Bug.POSITION_APART:
                await self._writer.commit([each for each in records if each.key != POSITION_KEY])
                if position := [each for each in records if each.key == POSITION_KEY]:
                    await self._writer.commit(position)
            case Bug.OUTBOX_POSITION:
                await self._writer.commit([each for each in records if each.topic != RELAY_POSITION])
            case Bug.TABLE_KEPT | Bug.NO_FENCE:
                await self._writer.commit(records)
            case Bug.EARLY_OPENING | Bug.NOT_CAUGHT_UP:
                raise ValueError(f"{self._bug} is a bug of the simulated log alone")
            case _:
                assert_never(self._bug)

    async def close(self) -> None:
        await self._writer.close()


def keep_tables() -> None:
    """A shard that starts again in the process in which its turn was aborted goes on with the tables it had, beside the
    positions that the log has.
    """
    start: Any = Shard.start
    left: dict[int, tuple[Shard, ShardApp]] = {}

    async def started(shard: Shard) -> None:
        await start(shard)
        app, former = shard._app, left.get(shard.number)
        assert app is not None
        if former is not None and isinstance(_failure(former[0]), UnavailableError):
            for name, table in app.tables.items():
                table.entries.clear()
                table.entries.update(former[1].tables[name].entries)
        left[shard.number] = shard, app

    Shard.start = started  # type: ignore[method-assign]


def _failure(shard: Shard) -> BaseException | None:
    ended = shard.ended
    return ended.exception() if ended.done() and not ended.cancelled() else None
