"""The agents: which station takes the chunks of which topics."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, Final

import faust
from faust.types.tuples import Message

from streamsched.ports.broker import Chunk
from streamsched.ports.topics import PUBLIC, SIGNALS
from streamsched.stream.event_home import EventHome
from streamsched.stream.ingest import Ingest
from streamsched.stream.schedule_home import ScheduleHome
from streamsched.stream.turn import Turn

#: How many agents take the chunks of each topic.
AGENTS: Final = {**dict.fromkeys(PUBLIC, 1), SIGNALS: 2}


class ChunkSchema(faust.Schema):
    """A message's value is a chunk already; there is nothing to decode."""

    def loads_key(self, app: Any, message: Message, **_: Any) -> Any:
        return None

    def loads_value(self, app: Any, message: Message, **_: Any) -> Any:
        return message.value


def declare_ingest(app: faust.App, turn: Turn, station: Ingest) -> None:
    """Agent `ingest`: public topics → `signals`."""

    async def ingest(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.part():
                station.take(chunk)

    app.agent(app.topic(*PUBLIC, schema=ChunkSchema(), acks=False), name="ingest")(ingest)


def declare_subscriptions(app: faust.App, turn: Turn, station: EventHome) -> None:
    """Agent `subscriptions`: signals keyed by event keys → `signals`, to the homes of those who listen."""

    async def subscriptions(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.part():
                station.take(chunk)

    app.agent(app.topic(SIGNALS, schema=ChunkSchema(), acks=False), name="subscriptions")(subscriptions)


def declare_triggers(app: faust.App, turn: Turn, station: ScheduleHome) -> None:
    """Agent `triggers`: signals keyed by schedules → trigger states and `launch`."""

    async def triggers(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.part():
                station.take(chunk)

    app.agent(app.topic(SIGNALS, schema=ChunkSchema(), acks=False), name="triggers")(triggers)
