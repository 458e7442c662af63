"""What is known of a dataset: what came, what waits for it, which periods of open keys are missing, and what is
expected of it. Its page, route and command show this; every search is bounded, and says when there is more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.api.deps import ApiServices
from streamsched.api.open_keys import definition_of, open_cells
from streamsched.api.reads.logged_events import LoggedEvent, events_of_key
from streamsched.domain.access.grant import Caller
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.fold.explain import Explanation, explained_leaves
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.finding import KNOWN_BY
from streamsched.domain.triggers.completeness import KeyCompleteness, KeyWrites, key_writes
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.event_slice import narrow_to_match
from streamsched.domain.triggers.trigger import Partitions, leaf_id, leaves_with_per
from streamsched.ports.intake import OpenKey
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.expectations.records import ExpectationRecord
from streamsched.wire.datasets import DatasetState

#: Records of its home that are searched, unless more are asked for, and at the most.
DEPTH: Final = 2000
DEEPEST: Final = 100_000
#: Commits of partitions that are read.
_COMMITS: Final = 2000
#: Schedules, and expectations, that are shown.
LISTENERS: Final = 20
#: Expectations that are read; some may be of namespaces that the caller may not view. Misses of each.
_EXPECTATIONS, _MISSES = 200, 100
#: Open keys of a schedule that are read, and those that are shown: so many that lack something, and that lack nothing.
_KEYS: Final = 200
_SHOWN_KEYS: Final = 5


class PartitionCommit(NamedTuple):
    """The newest commit of a partition. `late`: for a schedule that is shown; `rewritten`: how often it was committed
    before, as far as the log was searched.
    """

    key: str
    values: dict[str, str]
    rows: int | None
    bytes: int | None
    event: LoggedEvent
    late: bool
    rewritten: int

    @property
    def at(self) -> datetime:
        return self.event.at


class RollUpKey(NamedTuple):
    """An open key of a roll-up. `what` is None where not all of its events are at hand."""

    key: str
    have: int
    needed: int
    whole: bool
    what: KeyCompleteness | None
    writes: KeyWrites


class RollUp(NamedTuple):
    """A leaf that waits for the periods of the dataset. `more`: open keys that are not shown; `unread`: those of them
    that were not read.
    """

    schedule: str
    text: str
    per: Per
    keys: tuple[RollUpKey, ...]
    more: int
    unread: int


class ExpectedOfDataset(NamedTuple):
    """`missing_since`: the oldest time at which it was due and that is still open, among its newest misses."""

    record: ExpectationRecord
    missing_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetView:
    """A dataset as a caller sees it.

    Attributes:
        commits: the partitions that came, each once, the newest first.
        sources: by source, how many of the events; the source of most first.
        searched, whole: records that were searched, and whether the log has no older ones.
        schedules: those that wait for it and that the caller may view, at most `LISTENERS`; `more_schedules`: how many
            others of these there are, `other_schedules`: how many of namespaces that he may not view.
        sees_all: no schedule is missing from these counts.
        last_at: when the log appended its newest event; None: none was found.
    """

    ref: DatasetRef
    commits: Sequence[PartitionCommit]
    last_at: datetime | None
    sources: Sequence[tuple[str, int]]
    searched: int
    whole: bool
    schedules: Sequence[ScheduleStatus]
    more_schedules: int
    other_schedules: int
    sees_all: bool
    roll_ups: Sequence[RollUp]
    expectations: Sequence[ExpectedOfDataset]
    more_expectations: int

    @property
    def state(self) -> DatasetState:
        """INCOMPLETE if anything is missing, even when not everything was read; NOT_KNOWN if what was not read, or may
        not be seen, could be missing.
        """
        keys = [key for each in self.roll_ups for key in each.keys]
        states = {each.record.state for each in self.expectations}
        if "missing" in states or any(not key.whole for key in keys):
            return DatasetState.INCOMPLETE
        unread = any(each.unread for each in self.roll_ups) or self.more_schedules or self.more_expectations
        if unread or not self.sees_all:
            return DatasetState.NOT_KNOWN
        if self.roll_ups or "met" in states:
            return DatasetState.AS_EXPECTED
        return DatasetState.NO_EXPECTATION


async def dataset_view(services: ApiServices, caller: Caller, ref: DatasetRef, *, depth: int = DEPTH) -> DatasetView:
    """What the caller may see of a dataset; of an unknown one nothing came and nothing waits.

    Raises:
        UnavailableError: PostgreSQL or the log is unavailable.
    """
    tail = await events_of_key(services.events.search, f"partition:{ref}", depth=depth, limit=_COMMITS)
    events = list(_commits(tail.events))
    links = await services.datasets.links.links(caller)
    source = ("dataset", str(ref))
    names = links.listeners.get(source, ())
    statuses = await services.catalog.reader.find_schedules([ScheduleRef.parse(each) for each in names[:LISTENERS]])
    waiting: list[_Waiting] = []
    for status in statuses:
        if leaves := _roll_ups(status, ref):
            keys = await services.schedules.keys.list_newest(status.record.definition.ref, limit=_KEYS)
            waiting.append(await asyncio.to_thread(_read_newest_keys, status, leaves, keys))
    ids = {each.id for each in events}.union(*(each.event_ids for each in waiting))
    late = await services.work.activity.late_events(names[:LISTENERS], sorted(ids)) if ids and names else frozenset()
    commits = [each.event for each in events if each.event is not None]
    roll_ups: list[RollUp] = []
    for each in waiting:
        name = str(each.status.record.definition.ref)
        known_by = {event for schedule, event in late if schedule == name}
        its_late = {event for event in ids if event[:KNOWN_BY] in known_by}
        roll_ups += await asyncio.to_thread(_roll_up, each, commits, its_late)
    expected = await _expectations(services, caller, ref)
    return DatasetView(
        ref=ref,
        commits=_partitions(events, {event for _, event in late}),
        last_at=events[0].at if events else None,
        sources=Counter(each.source for each in events).most_common(),
        searched=tail.searched,
        whole=tail.whole,
        schedules=statuses,
        more_schedules=max(0, len(names) - LISTENERS),
        other_schedules=links.others.get(source, 0),
        sees_all=links.whole,
        roll_ups=roll_ups,
        expectations=expected[:LISTENERS],
        more_expectations=max(0, len(expected) - LISTENERS),
    )


def _commits(tail: Sequence[LoggedEvent]) -> Iterator[LoggedEvent]:
    """The newest events, each once however often it was sent, with `_COMMITS` partitions together. A repeat gives its
    bytes and rows to a first one without.
    """
    found: dict[tuple[str, str], tuple[LoggedEvent, Event, PartitionsAdded]] = {}
    for each in tail:
        if each.event is None or not isinstance(each.fact, PartitionsAdded):
            continue
        repeat = found.pop((each.source, each.id), None)
        fact = each.fact if repeat is None or each.fact.has_statistics else repeat[2]
        found[each.source, each.id] = each, each.event, fact
    left = _COMMITS
    for each, event, fact in found.values():
        yield replace(each, event=replace(event, fact=replace(fact, partitions=fact.partitions[:left])))
        left -= len(fact.partitions)
        if left <= 0:
            return


def _partitions(events: Sequence[LoggedEvent], late: Collection[str]) -> list[PartitionCommit]:
    found: dict[str, PartitionCommit] = {}
    for each in events:
        if isinstance(each.fact, PartitionsAdded):
            for part in {one.key: one for one in each.fact.partitions}.values():
                known = found.get(part.key)
                if known is not None:
                    found[part.key] = known._replace(rewritten=known.rewritten + 1)
                    continue
                came_late = each.id[:KNOWN_BY] in late
                found[part.key] = PartitionCommit(
                    part.key, dict(part.values), part.rows, part.bytes, each, came_late, rewritten=0
                )
    return list(found.values())


def _roll_ups(status: ScheduleStatus, ref: DatasetRef) -> dict[str, tuple[Partitions, Per]]:
    """The leaves of a schedule that say what belongs to a key of the dataset, by id."""
    return {
        leaf_id(leaf): (leaf, per)
        for leaf, per in leaves_with_per(status.record.definition.trigger)
        if per is not None and per.has_parts and isinstance(leaf, Partitions) and leaf.dataset == ref
    }


class _Waiting(NamedTuple):
    """A schedule that waits for periods of the dataset.

    Attributes:
        leaves: what waits, by id.
        read: how many of its open keys were read.
        shown: leaf → key → what has come of it, of the newest keys; the newest key first.
    """

    status: ScheduleStatus
    leaves: Mapping[str, tuple[Partitions, Per]]
    read: int
    shown: Mapping[str, Mapping[str, Explanation]]

    @property
    def event_ids(self) -> set[str]:
        """Of what has come of the keys that are shown."""
        return {event.id for keys in self.shown.values() for node in keys.values() for event in node.events}


def _read_newest_keys(
    status: ScheduleStatus, leaves: Mapping[str, tuple[Partitions, Per]], keys: Sequence[OpenKey]
) -> _Waiting:
    """A schedule with its newest open keys; `keys`: those that were read, the newest first."""
    definition = definition_of(status.record)
    found: dict[str, dict[str, Explanation]] = {each: {} for each in leaves}
    enough = dict.fromkeys(((leaf, whole) for leaf in leaves for whole in (True, False)), _SHOWN_KEYS)
    for key, cell in open_cells(definition, keys):
        for slot, node in explained_leaves(definition.plan, cell, key.key):
            if slot.leaf in found and not slot.veto and enough[slot.leaf, node.holds]:
                enough[slot.leaf, node.holds] -= 1
                found[slot.leaf][key.key] = node
        if not any(enough.values()):
            break
    return _Waiting(status, leaves, len(keys), found)


def _roll_up(waiting: _Waiting, commits: Sequence[Event], late: Collection[str]) -> list[RollUp]:
    """The roll-ups of a schedule with its newest open keys, in order. `late`: ids of events that came late for it."""
    made: list[RollUp] = []
    status = waiting.status
    for name, (leaf, per) in waiting.leaves.items():
        some = [event for each in commits if (event := _wanted_part(leaf, each)) is not None]
        shown = [_key(key, per, node, some, late) for key, node in reversed(list(waiting.shown[name].items()))]
        more, unread = status.open_keys - len(shown), status.open_keys - waiting.read
        of = str(status.record.definition.ref)
        made.append(RollUp(of, str(leaf), per, tuple(shown), max(0, more), max(0, unread)))
    return made


def _wanted_part(leaf: Partitions, event: Event) -> Event | None:
    """The part of a commit that the leaf waits for."""
    if not isinstance(event.fact, PartitionsAdded):
        return None
    part, fact = narrow_to_match(event, event.fact, leaf.match)
    return part if fact.partitions else None


def _key(key: str, per: Per, node: Explanation, commits: Sequence[Event], late: Collection[str]) -> RollUpKey:
    """`commits`: of the dataset, as far as they were read; the key may have older ones."""
    read = {(each.id, each.source) for each in commits}
    older = [each for each in node.events if (each.id, each.source) not in read]
    writes = key_writes(per, key, [*commits, *older], late)
    return RollUpKey(key, node.have, node.need, node.holds, node.completeness, writes)


async def _expectations(services: ApiServices, caller: Caller, ref: DatasetRef) -> list[ExpectedOfDataset]:
    """The expectations about the dataset that the caller may view, in order."""
    about = await services.schedules.expectations.list_about(SubjectKind.DATASET, str(ref), limit=_EXPECTATIONS)
    found: list[ExpectedOfDataset] = []
    for record in about:
        if not caller.sees(record.expectation.ref.namespace):
            continue
        since = None
        if record.state == "missing" and len(found) < LISTENERS:
            misses = await services.schedules.expectations.misses(record.expectation.ref, limit=_MISSES)
            since = min((each.due_at for each in misses if each.open), default=None)
        found.append(ExpectedOfDataset(record, since))
    return found
