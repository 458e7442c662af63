"""The Faust app of a shard, without its agents and tables: settings, message schema, and reaction to a crash."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, Final

import faust
from faust.agents import Agent
from faust.types import AgentT, TopicT
from faust.types.tuples import Message

from streamsched.log.topics import APP_ID
from streamsched.ports.broker import Chunk
from streamsched.stream.tables import NoRecovery, ShardTable
from streamsched.stream.transport import Feed, ShardTransport

_NEVER_S: Final = 365 * 24 * 3600.0


class ShardFaust(faust.App):
    """A Faust app that reports a crash of any of its services to the shard, which then restarts from the log."""

    logger = logging.getLogger("faust.app")
    feed: Feed

    def agent(  # type: ignore[override]
        self, channel: TopicT, *, name: str
    ) -> Callable[[Callable[[AsyncIterable[Chunk]], Awaitable[None]]], AgentT]:
        """As Faust's, without the discovery of agents: it looks through all modules of the process, which takes a third
        of a second at the start of each shard's process.
        """

        def register(process: Callable[[AsyncIterable[Chunk]], Awaitable[None]]) -> AgentT:
            agent = Agent(process, name=name, app=self, channel=channel, on_error=self._on_agent_error)
            self.agents[name] = agent
            self.topics.beacon.add(agent)
            return agent

        return register

    def _create_directories(self) -> None:
        """Creates none: tables are in memory, and the shard restores them from the changelogs."""

    def _crash(self, reason: BaseException) -> None:
        super()._crash(reason)
        self.feed.fail(reason)


class ChunkSchema(faust.Schema):
    """The value of a message is a `Chunk` already; nothing is decoded."""

    def loads_key(self, app: Any, message: Message, **_: Any) -> Any:
        return None

    def loads_value(self, app: Any, message: Message, **_: Any) -> Any:
        return message.value


def faust_app(feed: Feed, shards: int) -> ShardFaust:
    """An app on `ShardTransport` that reads from `feed`. Start it with `app.start()`, not with Faust's `Worker`: the
    process has its own event loop, signal handlers and logging, and the app serves no web pages.
    """
    for name in ("faust", "mode"):  # they log a failure that the shard logs as well, as its reason
        logging.getLogger(name).setLevel(logging.CRITICAL)
    app = ShardFaust(
        APP_ID,
        broker="streamsched://",
        store="memory://",
        Table=ShardTable,
        TableManager=NoRecovery,
        topic_partitions=shards,
        # The broker's topics are created by the installation, and an app has no leader agent.
        topic_allow_declare=False,
        topic_disable_leader=True,
        # A turn's transaction commits positions; Faust's own commits would have nothing to do.
        broker_commit_interval=_NEVER_S,
        broker_commit_livelock_soft_timeout=_NEVER_S,
        # Faust waits for tables to recover and for streams to become empty; both are done before it starts.
        stream_recovery_delay=0.0,
        stream_wait_empty=False,
        autodiscover=False,
        web_enabled=False,
    )
    app.feed = feed
    app.transport = ShardTransport(app, feed)
    return app
