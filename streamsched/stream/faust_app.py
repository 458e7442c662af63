"""The Faust app of a shard: declares topics, agents and tables, and hands chunks over to the agents (ADR 1).

Faust names the tables' changelogs and runs the agents over its streams. The shard reads, commits and recovers: the app
is never started, so Faust has no consumer, no producer and no recovery here, and no task of its own.

Written against faust-streaming 0.15.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from typing import Any

import faust
from faust.agents import Agent
from faust.transport.base import Transport
from faust.types import AgentT, ChannelT
from yarl import URL

from streamsched.log.topics import APP_ID
from streamsched.ports.broker import Chunk
from streamsched.stream.agents.emission import Emit
from streamsched.stream.rows import MemoryRows

#: An agent: yields after each chunk that it has processed.
Process = Callable[[AsyncIterable[Chunk]], AsyncGenerator[None, None]]


class ShardTable(faust.Table[bytes, bytes]):
    """A table of bytes. A write adds one record to the turn's transaction; through Faust's producer buffer it would
    cost 140 µs. Values are final: replace a value, never change it in place.
    """

    emit: Emit
    partition: int
    is_cold: Callable[[bytes], bool]
    #: What Faust's store holds, and the changelog's name, resolved once: Faust reaches both through several properties.
    entries: MemoryRows
    changelog_name: str

    def get(self, key: bytes, default: Any = None) -> Any:
        """The value, without Faust's hooks."""
        return self.entries.get(key, default)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.emit(self.changelog_name, self.partition, key, value)
        self.entries.put(key, value, cold=self.is_cold(key))

    def __delitem__(self, key: bytes) -> None:
        del self.entries[key]
        self.emit(self.changelog_name, self.partition, key, None)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Writes a record to the changelog only; `entries` does not change."""
        self.emit(self.changelog_name, self.partition, key, value)

    def restore(self, key: bytes, value: bytes | None) -> None:
        """Applies one changelog record, in log order; a value of None removes the key. Writes no changelog."""
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries.put(key, value, cold=self.is_cold(key))


class ShardFaust(faust.App):
    """Declare its agents and tables, then hand chunks over one at a time: the order of work is the caller's."""

    def __init__(self) -> None:
        super().__init__(APP_ID, store="memory://", Table=ShardTable, autodiscover=False, web_enabled=False)
        self.transport = _NoTransport([URL("streamsched://")], self)
        self._inlets: dict[str, _Inlet] = {}

    def declare_table(
        self, name: str, emit: Emit, partition: int, *, is_cold: Callable[[bytes], bool] = lambda _: False
    ) -> ShardTable:
        """An empty table. Its changelog topic is named by Faust: app id, `name` and `changelog`. `is_cold`: whether the
        row of a key will rarely be read.
        """
        table: Any = self.Table(name, key_type=bytes, value_type=bytes, default=None)
        table.emit, table.partition = emit, partition
        table.entries = table.data.data = MemoryRows()
        table.is_cold, table.changelog_name = is_cold, table.changelog_topic_name
        return table

    def agent(self, channel: ChannelT, *, name: str) -> Callable[[Process], AgentT]:  # type: ignore[override]
        """As Faust's, without the discovery of agents: it looks through all modules of the process, which takes 40 ms
        for each agent.
        """

        def register(process: Process) -> AgentT:
            agent = self.agents[name] = Agent(process, name=name, app=self, channel=channel)
            inlet = _Inlet(self, process)
            self._inlets |= dict.fromkeys(agent.get_topic_names(), inlet)
            return agent

        return register

    async def hand_over(self, chunk: Chunk) -> None:
        """Has the agent of the chunk's topic process it, and returns when it has done so.

        Raises:
            Exception: what the agent raised. It is over then: the shard starts anew from the log.
        """
        await self._inlets[chunk.topic].process(chunk)

    async def close(self) -> None:
        """Ends the agents. Idempotent."""
        for inlet in self._inlets.values():
            await inlet.close()


class _Inlet:
    """The stream of one agent: yields each chunk when the agent asks for it, so nothing waits in a queue."""

    def __init__(self, app: faust.App, process: Process) -> None:
        self._chunk: Chunk | None = None
        self._stream: Any = app.stream(self)
        self._processing = process(self._stream)

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        chunk, self._chunk = self._chunk, None
        assert chunk is not None
        return chunk

    async def process(self, chunk: Chunk) -> None:
        self._chunk = chunk
        await anext(self._processing)

    async def close(self) -> None:
        await self._processing.aclose()
        await self._stream.stop()


class _NoConsumer:
    """What a stream asks of a consumer: nothing is acknowledged to Faust."""

    def __init__(self, *_: object, **__: object) -> None:
        self.unacked = self._unacked_messages = set[object]()


class _NoTransport(Transport):
    Consumer = _NoConsumer  # type: ignore[assignment]
    driver_version = "streamsched"
