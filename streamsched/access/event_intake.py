"""The one way by which events of a caller come into the log: over HTTP, from OpenLineage, the pages and spools of runs.
The caller may announce each of them, and it is charged to the quota of its namespace.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from streamsched.access.emit_spans import EmitSpans
from streamsched.access.quota_watch import QuotaWatch
from streamsched.codec import event as event_codec
from streamsched.domain.access.announcement import permitted_events, without_run
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import Refusal
from streamsched.domain.events.event import Event, Fact, PartitionsAdded
from streamsched.domain.jobs.run_commit import RunCommit
from streamsched.domain.limits import MOST
from streamsched.domain.signals.home import home
from streamsched.log.topics import public_topic
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.clock import Clock
from streamsched.store.runs.run_commits import RunCommitStore
from streamsched.telemetry.metrics import Metrics

#: Events that are encoded before others get their turn.
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class TakenEvents:
    """What became of a request: the events that the log acknowledged, and a refusal of each other, by its index."""

    events: Sequence[Event]
    denied: Sequence[Refusal]


@dataclass(frozen=True, slots=True)
class EventIntake:
    """Takes events. `shards`: partitions of each public topic. `spans`: of events with a trace; None: none are made."""

    broker: Broker
    shards: int
    quotas: QuotaWatch
    clock: Clock
    metrics: Metrics
    commits: RunCommitStore
    spans: EmitSpans | None = None

    async def take(self, caller: Caller, events: Sequence[Event], *, body: int, dialect: str) -> TakenEvents:
        """Takes the events that the caller may announce, all or, when this raises, none. `body`: bytes of the request.

        Raises:
            BodyExceededError, RateExceededError: a quota.
            TooLargeError: an event is larger than the log allows.
            UnavailableError: the log or PostgreSQL does not answer; any part may have been taken.
        """
        permitted, denied = permitted_events(caller, events)
        if permitted:
            await self.admit((event.fact for event in permitted), body=body)
            await self.append([without_run(event) for event in permitted], dialect=dialect)
            if committed := run_commits(permitted):
                await self.commits.add(committed)
        return TakenEvents(permitted, denied)

    async def admit(self, facts: Iterable[Fact], *, body: int) -> None:
        """Checks facts that their caller may announce, in a body of so many bytes, and charges them.

        Raises:
            BodyExceededError, RateExceededError: as `take`.
        """
        await self.quotas.admit(facts, body=body)

    async def append(self, events: Sequence[Event], *, dialect: str) -> None:
        """Appends events that were admitted, and counts them.

        Raises:
            TooLargeError, UnavailableError: as `take`.
        """
        began_at = self.clock.now()
        onward = events if self.spans is None else self.spans.continue_traces(events)
        records: list[Outgoing] = []
        for begin in range(0, len(onward), _AT_ONCE):
            records += [_to_outgoing(event, self.shards) for event in onward[begin : begin + _AT_ONCE]]
            await asyncio.sleep(0)
        await self.broker.append(records)
        if self.spans is not None:
            self.spans.record_accepted(events, began_at=began_at, ended_at=self.clock.now())
        for topic, number in Counter(public_topic(event.fact) for event in events).items():
            self.metrics.add("events_accepted_total", number, topic=topic, dialect=dialect)


def run_commits(events: Iterable[Event]) -> list[RunCommit]:
    """What runs have committed, by the events that say so."""
    return [
        RunCommit(
            run=fact.run,
            commit=event.id,
            dataset=fact.dataset,
            at=event.time,
            partitions=fact.count,
            rows=min(MOST, sum(each.rows or 0 for each in fact.partitions)),
            bytes=min(MOST, sum(each.bytes or 0 for each in fact.partitions)),
        )
        for event in events
        if isinstance(fact := event.fact, PartitionsAdded) and fact.run
    ]


def _to_outgoing(event: Event, shards: int) -> Outgoing:
    """The record of an event for its public topic, in the home partition of its key."""
    return Outgoing(public_topic(event.fact), home(event.key, shards), event.key.encode(), event_codec.encode(event))
