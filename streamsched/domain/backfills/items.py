"""The items of a backfill: what each of its jobs is about, in the order of the span. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from heapq import merge
from itertools import groupby, islice, product
from typing import Final, assert_never

from streamsched.domain.backfills.request import MOST_ITEMS, KeySpan, PartitionSpan, Span, TickSpan
from streamsched.domain.errors import ClosedDayError, InvalidError
from streamsched.domain.events.event import Event, Partition, PartitionsAdded, Ticked
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Submission, backfill_job_id
from streamsched.domain.limits import check_instant
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.time.zone import first_instant, zone_of
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.event_slice import narrow_to_match
from streamsched.domain.triggers.keyed_event import event_slices
from streamsched.domain.triggers.named_key import named_key, zone_of_keys
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    Every,
    Partitions,
    TimeLeaf,
    Total,
    Trigger,
    leaf_id,
    leaves,
    leaves_with_per,
)

#: Source of the events that stand for those that would have satisfied the trigger.
SOURCE: Final = "streamsched/backfills"
_DATE: Final = len("2013-01-01")
_STEP: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class BackfillItem:
    """What one job is about.

    Attributes:
        marks: the ticks, the key or the partitions by which earlier jobs of the schedule are recognised.
        contributions: the events that its run is given.
        key: the correlation key; "" without one.
        columns: of the key, as they were given.
        logical_at: the tick (UTC).
    """

    marks: tuple[str, ...]
    contributions: tuple[Contribution, ...] = ()
    key: str = ""
    columns: dict[str, str] = field(default_factory=dict[str, str])
    logical_at: datetime | None = None

    def ready_job(self, schedule: ScheduleRef, generation: int, backfill: str, number: int, now: datetime) -> ReadyJob:
        """Its job, without what all jobs of the backfill have in common."""
        submission = Submission(
            backfill_job_id(backfill, number), columns=self.columns, backfill=backfill, logical_at=self.logical_at
        )
        return ReadyJob(schedule, generation, 0, now, self.contributions, self.key, submission)


def items_of(
    schedule: Schedule, span: Span, *, generation: int, created_at: datetime, now: datetime
) -> Sequence[BackfillItem]:
    """All items, oldest first; at least one, each once; of keys none whose day a calendar closes.

    Args:
        schedule: the definition of `generation`.
        created_at: of the schedule; intervals without a start count from it.
        now: UTC; later ticks are not part of a span.

    Raises:
        InvalidError: the span does not fit the trigger, is reversed, empty, in the future, or has more than
            `MOST_ITEMS`.
    """
    match span:
        case TickSpan():
            found, path, what = _of_ticks(schedule, span, generation, created_at, now), "$.to", "ticks"
        case KeySpan():
            found, path, what = _of_keys(schedule.trigger, span), "$.keys", "keys"
        case PartitionSpan():
            found, path, what = _of_partitions(schedule.trigger, span, now), "$.partitions", "jobs"
        case _:
            assert_never(span)
    items = list(islice(found, MOST_ITEMS + 1))
    if len(items) > MOST_ITEMS:
        raise InvalidError(path, f"makes the span more than {MOST_ITEMS} {what}; split it")
    if not items:
        raise InvalidError(path, f"leaves the span without {what}: {_empty_reason(schedule, span)}")
    return items


def _empty_reason(schedule: Schedule, span: Span) -> str:
    match span:
        case TickSpan():
            return f"{schedule.trigger} has no tick from {span.begin} to {span.end}"
        case KeySpan():
            return "a column has no values, or a calendar closes all days"
        case PartitionSpan():
            return f"none of {len(span.partitions)} partitions counts for {schedule.trigger}"
        case _:
            assert_never(span)


def _of_ticks(
    schedule: Schedule, span: TickSpan, generation: int, created_at: datetime, now: datetime
) -> Iterator[BackfillItem]:
    clocks = {leaf_id(leaf): leaf for leaf in leaves(schedule.trigger) if isinstance(leaf, Cron | Every | At)}
    if not clocks:
        raise InvalidError("$.from", f"is given, but the schedule's trigger has no clock: {schedule.trigger}")
    begin, end = _bounds(span, next((leaf.zone for leaf in clocks.values() if not isinstance(leaf, At)), "UTC"), now)
    ticks = merge(*(_ticks(leaf, name, begin, end, created_at) for name, leaf in clocks.items()))
    for due, group in groupby(ticks, key=lambda tick: tick[0]):
        yield BackfillItem(
            (due.isoformat().replace("+00:00", "Z"),),
            tuple(Contribution(name, 1, (_tick(schedule.ref, generation, name, due),)) for _, name in group),
            logical_at=due,
        )


def _ticks(
    leaf: TimeLeaf, name: str, begin: datetime, end: datetime, created_at: datetime
) -> Iterator[tuple[datetime, str]]:
    due = next_fire(leaf, begin - _STEP, created_at=created_at)
    while due is not None and due <= end:
        yield due, name
        due = next_fire(leaf, due, created_at=created_at)


def _tick(schedule: ScheduleRef, generation: int, leaf: str, due: datetime) -> Event:
    name = f"tick:{schedule}:{generation}:{leaf}:{due.isoformat()}"
    return Event(name, SOURCE, due, Ticked(schedule, generation, leaf, due))


def _bounds(span: TickSpan, zone: str, now: datetime) -> tuple[datetime, datetime]:
    """The first and the last instant (UTC, included)."""
    begin, end = _instant(span.begin, "$.from", zone), _instant(span.end, "$.to", zone)
    if len(span.end) == _DATE and end <= now:
        end = min(_instant(_next_day(span.end), "$.to", zone) - _STEP, now)
    if end < begin:
        raise InvalidError("$.to", f"is {span.end}, before the beginning of the span, {span.begin}: it is reversed")
    if end > now:
        raise InvalidError("$.to", f"is {span.end}, in the future; the schedule itself starts the jobs of its ticks")
    return begin, end


def _next_day(text: str) -> str:
    return date.fromordinal(date.fromisoformat(text).toordinal() + 1).isoformat()


def _instant(text: str, path: str, zone: str) -> datetime:
    try:
        if len(text) == _DATE:
            read = first_instant(datetime.combine(date.fromisoformat(text), time.min), zone_of(zone))
        else:
            read = datetime.fromisoformat(text)
            if read.tzinfo is None:
                raise InvalidError(path, f"is '{text:.60}': name its offset from UTC, as in {text:.60}Z")
            read = read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidError(
            path, f"is '{text:.60}', which is no date such as 2013-01-01 and no instant such as 2013-01-01T06:00:00Z"
        ) from None
    check_instant(read, path)
    return read


def _of_keys(trigger: Trigger, span: KeySpan) -> Iterator[BackfillItem]:
    size = 1
    values: list[Sequence[str]] = []
    zone = zone_of_keys(trigger)
    for given in span.columns.values():
        values.append(tuple(islice(given.in_zone(zone), MOST_ITEMS + 1)))
        size *= len(values[-1])
    if size > MOST_ITEMS:
        raise InvalidError("$.keys", f"name {size} keys or more; at most {MOST_ITEMS} fit into one backfill: split it")
    seen: set[str] = set()
    for combination in product(*values):
        columns = dict(zip(span.columns, combination, strict=True))
        try:
            key = named_key(trigger, columns)
        except ClosedDayError:
            continue
        except InvalidError as exc:
            raise InvalidError(exc.path.replace("$.key", "$.keys", 1), exc.reason) from exc
        if key not in seen:
            seen.add(key)
            yield BackfillItem((key,), key=key, columns=columns)


def _of_partitions(trigger: Trigger, span: PartitionSpan, now: datetime) -> Iterator[BackfillItem]:
    """Of a schedule that correlates a job for each key, with all its partitions; otherwise a job for as many partitions
    as the trigger waits for, in the order of their keys, where the last job may have fewer.
    """
    named = {partition.key: partition for partition in span.partitions}
    partitions = tuple(named[key] for key in sorted(named))
    found = {
        (leaf_id(leaf), per): leaf
        for leaf, per in leaves_with_per(trigger)
        if isinstance(leaf, Partitions | Total) and leaf.dataset == span.dataset
    }
    if not found:
        raise InvalidError("$.dataset", f"is {span.dataset}, for which the schedule does not wait: {trigger}")
    if any(per is not None for _, per in found):
        yield from _by_key(found, span, partitions, now)
        return
    sizes = [leaf.count for leaf in found.values() if isinstance(leaf, Partitions)]
    counted = [each for each in partitions if any(leaf.match.accepts(each.values) for leaf in found.values())]
    size = max(sizes, default=1)
    for start in range(0, len(counted), size):
        batch = counted[start : start + size]
        event = _event(span, batch, now)
        contributions = [
            Contribution(name, fact.count, (part,))
            for (name, _), leaf in found.items()
            for part, fact in (narrow_to_match(event, _fact(event), leaf.match),)
            if fact.count
        ]
        yield BackfillItem(tuple(each.key for each in batch), tuple(contributions))


def _by_key(
    found: dict[tuple[str, Per | None], Partitions | Total],
    span: PartitionSpan,
    partitions: Sequence[Partition],
    now: datetime,
) -> Iterator[BackfillItem]:
    by_key: dict[str, dict[str, Event]] = {}
    event, slices = _event(span, partitions, now), 0
    for (name, per), leaf in found.items():
        if per is None:
            continue
        part, _ = narrow_to_match(event, _fact(event), leaf.match)
        for key, _, some in event_slices(per, part):
            slices += 1
            if slices > MOST_ITEMS * len(found):
                raise InvalidError("$.partitions", f"have more than {MOST_ITEMS} keys; split them")
            kept = by_key.setdefault(key, {})
            kept[name] = _unite_slices(span, kept[name], some, now) if name in kept else some
    for key in sorted(by_key):
        parts = by_key[key]
        marks = dict.fromkeys(each.key for part in parts.values() for each in _fact(part).partitions)
        yield BackfillItem(
            tuple(marks), tuple(Contribution(name, _fact(part).count, (part,)) for name, part in parts.items()), key
        )


def _unite_slices(span: PartitionSpan, one: Event, other: Event, now: datetime) -> Event:
    """Two slices of the event that have the same key, as with a roll-up."""
    return _event(span, (*_fact(one).partitions, *_fact(other).partitions), now)


def _event(span: PartitionSpan, partitions: Iterable[Partition], now: datetime) -> Event:
    some = tuple(partitions)
    first = some[0].key if some else ""
    return Event(f"partitions:{span.dataset}:{first}", SOURCE, now, PartitionsAdded(span.dataset, some, len(some)))


def _fact(event: Event) -> PartitionsAdded:
    assert isinstance(event.fact, PartitionsAdded)
    return event.fact
