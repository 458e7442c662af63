"""Hints for emitters: which event keys no schedule listens to, and which events have no correlation key for those that
do. The verdict of an event is decided in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from streamsched.domain.errors import StreamschedError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.events.match import Match
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keyed_event import keyed_event, without_key
from streamsched.domain.triggers.trigger import (
    CustomEvent,
    Partitions,
    ProgramStatus,
    Total,
    leaf_keys,
    leaves_with_per,
)
from streamsched.ports.clock import Clock
from streamsched.store.events.event_traces import CurrentSchedule, EventTraces
from streamsched.wire.events import KeylessEvent

#: How long a key with a listener is cached. A key without one is queried every time.
_TTL: Final = timedelta(seconds=5)
#: Largest number of keys in one query, and in the cache.
_MAX_QUERIED: Final = 100
_MAX_CACHED: Final = 50_000
#: Seconds until a query for a hint is abandoned.
_TIMEOUT: Final = 0.5
#: Events of one request whose keys are checked, and the most leaves and partitions of such an event.
_MAX_CHECKED: Final = 20
_MAX_LEAVES: Final = 20
_MAX_PARTITIONS: Final = 100


@dataclass(frozen=True, slots=True)
class ListenerHints:
    """What is known of the listeners of some events; it may be less than there is.

    Attributes:
        unheard: event keys that no schedule listens to now, sorted; None when that cannot be known in time.
        keyless: events without a key.
    """

    unheard: Sequence[str] | None
    keyless: Sequence[KeylessEvent] = ()


class _Heard(NamedTuple):
    """The leaves of schedules that listen to an event key. `own`: some are of schedules in the namespace of the event;
    only these are named in a reason.
    """

    until: datetime
    leaves: tuple[tuple[Match, Per | None], ...]
    own: bool


class Listeners:
    """Finds event keys without listeners and events without correlation keys. It may miss some."""

    def __init__(self, traces: EventTraces, clock: Clock) -> None:
        self._traces = traces
        self._clock = clock
        self._cached: dict[str, _Heard] = {}

    async def hints(self, events: Sequence[Event]) -> ListenerHints:
        """The hints for the events of one request."""
        now = self._clock.now()
        keys = sorted({event.key for event in events})
        asked = [key for key in keys if key not in self._cached or self._cached[key].until <= now][:_MAX_QUERIED]
        unheard: list[str] = []
        if asked:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    found = await self._traces.listeners(asked)
            except (TimeoutError, StreamschedError):  # the event is in the log already; the hint is optional
                return ListenerHints(None)
            if len(self._cached) > _MAX_CACHED:
                self._cached.clear()
            for key in asked:
                self._cached.pop(key, None)
                listening = [each for each in found.get(key, ()) if each.record.listens]
                if listening:
                    self._cached[key] = _find_heard(key, listening, now + _TTL)
                elif key in found:
                    unheard.append(key)
        return ListenerHints(unheard, tuple(_find_keyless(events[:_MAX_CHECKED], self._cached)))


def _find_heard(key: str, listening: Sequence[CurrentSchedule], until: datetime) -> _Heard:
    """The distinct leaves, first those of the event's own namespace; one more than are checked at the most."""
    namespace = key.split(":")[1].partition(".")[0]
    listening = sorted(listening, key=lambda each: each.record.definition.ref.namespace != namespace)
    leaves: dict[tuple[object, ...], tuple[Match, Per | None]] = {}
    for each in listening:
        for leaf, per in leaves_with_per(each.record.definition.trigger):
            if key in leaf_keys(leaf) and isinstance(leaf, Partitions | Total | ProgramStatus | CustomEvent):
                derived = (leaf.match, per and (per.by, per.grain, per.zone, per.each, per.calendar))
                leaves.setdefault(derived, (leaf.match, per))
        if len(leaves) > _MAX_LEAVES:
            break
    own = listening[0].record.definition.ref.namespace == namespace
    return _Heard(until, tuple(islice(leaves.values(), _MAX_LEAVES + 1)), own)


def _find_keyless(events: Sequence[Event], known: Mapping[str, _Heard]) -> Iterator[KeylessEvent]:
    for event in events:
        heard = known.get(event.key)
        if heard is None or not heard.own or not 0 < len(heard.leaves) <= _MAX_LEAVES:
            continue
        if isinstance(event.fact, PartitionsAdded) and len(event.fact.partitions) > _MAX_PARTITIONS:
            continue
        pers = [(match, per) for match, per in heard.leaves if per is not None]
        if len(pers) == len(heard.leaves):
            missing = without_key([(match, keyed_event(per, event)) for match, per in pers])
            if missing is not None:
                yield KeylessEvent(event.id, event.key, str(missing))
