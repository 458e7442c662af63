"""The agents: which station takes the chunks of which topics."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final, Protocol

import faust
from faust.types.tuples import Message

from streamsched.ports.broker import Chunk
from streamsched.ports.topics import PUBLIC, SIGNALS
from streamsched.stream.turn import Turn

#: How many agents take the chunks of each topic.
AGENTS: Final = {**dict.fromkeys(PUBLIC, 1), SIGNALS: 2}


class ChunkSchema(faust.Schema):
    """A message's value is a chunk already; there is nothing to decode."""

    def loads_key(self, app: Any, message: Message, **_: Any) -> Any:
        return None

    def loads_value(self, app: Any, message: Message, **_: Any) -> Any:
        return message.value


class Station(Protocol):
    """What takes the chunks of its topics."""

    def take(self, chunk: Chunk) -> None: ...


def declare(app: faust.App, turn: Turn, *, ingest: Station, subscriptions: Station, triggers: Station) -> None:
    """The agents of a shard: `ingest`, public topics → `signals`; `subscriptions`, signals keyed by event keys →
    `signals`, to the homes of those who listen; `triggers`, signals keyed by schedules → trigger states and `launch`.
    """
    _agent(app, turn, "ingest", PUBLIC, ingest)
    _agent(app, turn, "subscriptions", (SIGNALS,), subscriptions)
    _agent(app, turn, "triggers", (SIGNALS,), triggers)


def _agent(app: faust.App, turn: Turn, name: str, topics: Iterable[str], station: Station) -> None:
    async def take(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.part():
                station.take(chunk)

    app.agent(app.topic(*topics, schema=ChunkSchema(), acks=False), name=name)(take)
