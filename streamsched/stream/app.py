"""A shard's Faust app: three agents, three tables, our transport. Made by a function; nothing exists at import."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import faust

from streamsched.domain.errors import InvalidError
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import APP_ID
from streamsched.stream.agents import declare
from streamsched.stream.caution import Condemned
from streamsched.stream.edition import Edition
from streamsched.stream.emission import dead_letter, unforeseen
from streamsched.stream.event_home import EventHome
from streamsched.stream.ingest import Ingest
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo
from streamsched.stream.schedule_home import SCHEDULE_PREFIX, ScheduleHome
from streamsched.stream.tables import RestoredTables, ShardTable, table
from streamsched.stream.transport import Feed, ShardTransport
from streamsched.stream.turn import Turn

_NEVER_S = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ShardApp:
    """The app, and its tables by the names of their changelogs, to be restored before it starts."""

    faust: faust.App
    tables: Mapping[str, ShardTable]
    events: EventHome
    schedules: ScheduleHome
    discard: Callable[[Chunk, Record, InvalidError, bool], None]

    def refuse(self, chunk: Chunk, condemned: Condemned) -> None:
        """Puts the one record of a chunk where a person can see it, as part of the turn, instead of taking it: a
        schedule's signal is parked with its schedule, anything else (or what cannot be parked) is a dead letter. Where
        its topic does not take that either, the letter says no more than where the record stands.
        """
        (record,) = chunk.records
        key, failure, refusals = record.key, condemned.failure, condemned.refusals
        parks = key is not None and key.startswith(SCHEDULE_PREFIX)
        if parks and not refusals:
            self.schedules.refuse(chunk, record, failure)
        else:
            self.discard(chunk, record, unforeseen(failure), refusals > parks)


class CrashingApp(faust.App):
    """Tells the feed when any service inside breaks, instead of standing there without consuming."""

    logger = logging.getLogger("faust.app")
    feed: Feed

    def _create_directories(self) -> None:
        """None: the tables are in memory and their truth in the log, so there is nothing to keep in a folder."""

    def _crash(self, reason: BaseException) -> None:
        super()._crash(reason)
        self.feed.fail(reason)


def make_app(
    *,
    feed: Feed,
    turn: Turn,
    shard: int,
    shards: int,
    outlets: int,
    dedupe_horizon: timedelta,
    memo: Memo,
    edition: Edition,
    verdicts: bool,
) -> ShardApp:
    """The app of one shard, ready to be restored and started. Start it without Faust's `Worker`: signals, logging and
    the event loop belong to us, and it serves no web pages.

    `outlets`: how many partitions the topics have that are no homes. `verdicts`: whether it says what became of every
    event.
    """
    for noisy in ("faust", "mode"):  # what they have to say of a failure comes to the feed as its reason
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    app = CrashingApp(
        APP_ID,
        broker="streamsched://",
        store="memory://",
        autodiscover=False,
        broker_commit_interval=_NEVER_S,
        broker_commit_livelock_soft_timeout=_NEVER_S,
        stream_recovery_delay=0.0,
        stream_wait_empty=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=shards,
        web_enabled=False,
        Table=ShardTable,
        TableManager=RestoredTables,
    )
    app.feed = feed
    app.transport = ShardTransport(app, feed)
    subscriptions, seen, triggers = (table(app, name, turn, shard) for name in ("subscriptions", "seen", "triggers"))

    outlet = shard % outlets

    def ledger() -> Ledger | None:
        return Ledger(shard=outlet, emit=turn.emit) if verdicts else None

    ingest = Ingest(shard=outlet, shards=shards, emit=turn.emit, memo=memo, ledger=ledger())
    events = EventHome(
        shard=outlet,
        shards=shards,
        subscriptions=subscriptions,
        seen=seen,
        emit=turn.emit,
        memo=memo,
        horizon=dedupe_horizon,
        ledger=ledger(),
    )
    schedules = ScheduleHome(
        shard=shard, outlets=outlets, triggers=triggers, emit=turn.emit, memo=memo, edition=edition, ledger=ledger()
    )
    declare(app, turn, ingest=ingest, subscriptions=events, triggers=schedules)
    last = ledger()

    def discard(chunk: Chunk, record: Record, error: InvalidError, bare: bool) -> None:
        dead_letter(turn.emit, outlet, chunk, record, error, ledger=last, bare=bare)
        if last is not None:
            last.close()

    tables = {made.changelog_topic_name: made for made in (subscriptions, seen, triggers)}
    return ShardApp(app, tables, events, schedules, discard)
