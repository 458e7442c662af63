"""What must be so at the end of a simulation, station by station, and what must never be so in between.

The log itself says what came in where and in which order; from there on the naive model of triggers
(`tests.support.rerun`) says which jobs there must be. Changes that keep what another trigger has, which that model does
not know in general, are judged by folding the log anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from streamsched_brokers.memory import MemoryLog

from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import Ticked, schedule_key
from streamsched.domain.fold.effect import Launch
from streamsched.domain.fold.fold import NO_CELLS, fold
from streamsched.domain.jobs.job import job_id
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Put, Signal, Subscribe, Unsubscribe
from streamsched.log.topics import DEAD_LETTER, LAUNCH, SIGNALS
from streamsched.ports.broker import Outgoing, Record
from tests.simulation.database import Database
from tests.simulation.traffic import Reports
from tests.support.judgement import Judgement
from tests.support.rerun import numbered

#: The time between two ticks of a schedule here.
_TICK: Final = timedelta(seconds=1)

#: What a job says: leaf, how much, of which events.
Content = tuple[tuple[str, int, tuple[str, ...]], ...]


class Watch:
    """Looks at every append before it is made: no job twice, no event twice to the same schedule."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement
        self._jobs: set[bytes] = set()
        self._forwarded: set[tuple[bytes, bytes]] = set()
        self._over = False
        self.jobs = 0

    def end(self) -> None:
        """What comes from here on is the unwinding of what was killed, and counts no more."""
        self._over = True

    def see(self, records: Sequence[Outgoing]) -> None:
        if self._over:
            return
        for record in records:
            if record.topic == LAUNCH and record.key is not None:
                if record.key in self._jobs:
                    self._judgement.double(f"job {record.key.decode()} on its way again")
                self._jobs.add(record.key)
                self.jobs += 1
            if record.topic == SIGNALS and record.key and record.value and record.key.startswith(b"schedule:"):
                identity = signal_codec.identity(record.value)
                if identity is None:
                    continue
                place = (record.key, identity[0].encode())
                if place in self._forwarded:
                    self._judgement.double(f"event {identity[0]} to {record.key.decode()} again")
                self._forwarded.add(place)


def judge(log: MemoryLog, database: Database, reported: Reports, into: Judgement) -> None:
    """Everything, once nothing moves any more."""
    signals = [_decoded(part.records) for part in log.topics[SIGNALS]]
    launched = [record for part in log.topics[LAUNCH] for record in part.records]
    _ingested(signals, reported, into)
    _controlled(log, reported, into)
    _forwarded(signals, into)
    _promised(signals, reported, into)
    _ticked(signals, reported, into)
    _jobs(signals, launched, into)
    _stored(launched, database, into)
    for part in log.topics[DEAD_LETTER]:
        for record in part.records:
            into.spoil(f"a dead letter: {record.value!r}")


def _decoded(records: Iterable[Record]) -> list[tuple[Record, Signal]]:
    return [(each, signal_codec.decode(each.key or b"", each.value or b"")) for each in records]


def _ingested(signals: Sequence[Sequence[tuple[Record, Signal]]], reported: Reports, into: Judgement) -> None:
    """Every copy of every event that was appended came to its key's home, once."""
    came = Counter(
        signal.event.id
        for part in signals
        for record, signal in part
        if isinstance(signal, Occurred) and not (record.key or b"").startswith(b"schedule:")
    )
    for event, copies in reported.copies.items():
        if came[event] < copies:
            into.miss(f"event {event} was sent {copies} times and came {came[event]} times")
        if came[event] > copies:
            into.double(f"event {event} was sent {copies} times and came {came[event]} times")


def _controlled(log: MemoryLog, reported: Reports, into: Judgement) -> None:
    """Every record of a change came once; those of one key in the order of their changes."""
    came = [(r.key or b"", r.value or b"") for part in log.topics[SIGNALS] for r in part.records]
    times = Counter(came)
    for control in reported.control:
        if times[control] == 0:
            into.miss(f"control {control}")
        if times[control] > 1:
            into.double(f"control {control}, {times[control]} times")


def _forwarded(signals: Sequence[Sequence[tuple[Record, Signal]]], into: Judgement) -> None:
    """The first copy of an event went to everyone who listened to its key just then, in order; no other did."""
    for number, part in enumerate(signals):
        listeners: dict[bytes, dict[ScheduleRef, int]] = {}
        seen: set[tuple[bytes, str]] = set()
        wanted: dict[tuple[bytes, ScheduleRef], list[str]] = {}
        for record, signal in part:
            key = record.key or b""
            if key.startswith(b"schedule:"):
                continue
            here = listeners.setdefault(key, {})
            match signal:
                case Subscribe(schedule=ref, generation=generation):
                    here[ref] = max(generation, here.get(ref, -1))
                case Unsubscribe(schedule=ref, generation=generation) if here.get(ref, generation + 1) <= generation:
                    del here[ref]
                case Occurred(event=event) if (key, event.id) not in seen:
                    seen.add((key, event.id))
                    for ref in here:
                        wanted.setdefault((key, ref), []).append(event.id)
                case _:
                    pass
        places = {(key, ref) for key in listeners for other in signals for ref in _schedules(other)}
        for key, ref in sorted(places):
            address = schedule_key(ref)
            came = [
                signal.event.id
                for record, signal in signals[home(address, len(signals))]
                if record.key == address.encode() and isinstance(signal, Occurred) and signal.event.key == key.decode()
            ]
            if came != wanted.get((key, ref), []):
                _compare(f"events of {key.decode()} (home {number}) to {ref}", wanted.get((key, ref), []), came, into)


def _schedules(part: Sequence[tuple[Record, Signal]]) -> set[ScheduleRef]:
    return {signal.schedule for _, signal in part if isinstance(signal, Put)}


def _compare(what: str, wanted: Sequence[str], came: Sequence[str], into: Judgement) -> None:
    missing, more = Counter(wanted) - Counter(came), Counter(came) - Counter(wanted)
    if missing:
        into.miss(f"{what}: {sorted(missing.elements())}")
    if more:
        into.double(f"{what}: {sorted(more.elements())}")
    if not missing and not more:
        into.spoil(f"{what}: {came} came in another order than {wanted}")


def _promised(signals: Sequence[Sequence[tuple[Record, Signal]]], reported: Reports, into: Judgement) -> None:
    """An event that was emitted after a change had returned is judged by it, or by a later one (promise G4)."""
    judged: dict[tuple[str, ScheduleRef], int] = {}
    for part in signals:
        current: dict[bytes, int] = {}
        refs: dict[bytes, ScheduleRef] = {}
        for record, signal in part:
            key = record.key or b""
            if isinstance(signal, Put):
                current[key], refs[key] = max(signal.generation, current.get(key, 0)), signal.schedule
            if isinstance(signal, Occurred) and key in refs:
                judged[signal.event.id, refs[key]] = current[key]
    for event, ref, generation in reported.promises:
        if judged.get((event, ref), generation) < generation:
            into.spoil(f"event {event} came to {ref} when generation {judged[event, ref]} stood, not {generation}")


def _ticked(signals: Sequence[Sequence[tuple[Record, Signal]]], reported: Reports, into: Judgement) -> None:
    """Ticks come a second apart, from the first to the last that is due, each once, in order (promise G6)."""
    came: dict[tuple[ScheduleRef, int], list[datetime]] = {}
    for part in signals:
        for _, signal in part:
            if isinstance(signal, Occurred) and isinstance(signal.event.fact, Ticked):
                tick = signal.event.fact
                came.setdefault((tick.schedule, tick.generation), []).append(tick.due_at)
    for which, first in reported.first_ticks.items():
        until = reported.next_ticks.get(which)
        ticks = came.get(which, [])
        last = until - _TICK if until is not None else (ticks[-1] if ticks else first - _TICK)
        wanted = [first + number * _TICK for number in range((last - first) // _TICK + 1)]
        if ticks != wanted:
            _compare(f"ticks of {which}", [str(each) for each in wanted], [str(each) for each in ticks], into)


def _jobs(signals: Sequence[Sequence[tuple[Record, Signal]]], launched: Sequence[Record], into: Judgement) -> None:
    """Of each schedule's log, the jobs that the oracle wants, and nothing else."""
    found: dict[str, Content] = {}
    backlogs = {
        (signal.schedule, signal.generation): signal.backlog
        for part in signals
        for _, signal in part
        if isinstance(signal, Put)
    }
    for record in launched:
        job = launch_codec.decode(record.value or b"")
        if job.schedule is not None and job.backlog is not backlogs.get((job.schedule, job.generation), False):
            into.spoil(f"job {job.id} is {'' if job.backlog else 'not '}of a backlog")
        found[job.id] = tuple((c.leaf, c.count, tuple(event.id for event in c.events)) for c in job.contributions)
    wanted: dict[str, Content] = {}
    for part in signals:
        for ref in sorted(_schedules(part)):
            wanted |= _wanted(ref, [(r, s) for r, s in part if r.key == schedule_key(ref).encode()])
    for job, content in wanted.items():
        if job not in found:
            into.miss(f"job {job}: {content}")
        elif _plain(found[job]) != _plain(content):
            into.spoil(f"job {job} has {found[job]}, must have {content}")
    for job in found.keys() - wanted.keys():
        into.double(f"job {job} should not be: {found[job]}")


def _wanted(ref: ScheduleRef, log: Sequence[tuple[Record, Signal]]) -> Mapping[str, Content]:
    """Job id → what it must say."""
    stamped = [(datetime.fromtimestamp(record.time_ms / 1000, UTC), signal) for record, signal in log]
    puts = [signal for _, signal in log if isinstance(signal, Put)]
    if not any(put.keep and put.trigger != before.trigger for before, put in pairwise(puts)):
        return {job_id(ref, job.generation, job.sequence): job.reported for job in numbered(stamped)}
    state, wanted = None, dict[str, Content]()
    for at, signal in stamped:
        folded = fold(state, signal, at=at, cells=NO_CELLS)
        state = folded.state
        for effect in folded.effects:
            if isinstance(effect, Launch):
                said = effect.job.contributions
                wanted[effect.job.id] = tuple((c.leaf, c.count, tuple(e.id for e in c.events)) for c in said)
    return wanted


def _plain(content: Content) -> list[tuple[str, int, tuple[str, ...]]]:
    return sorted(content)


def _stored(launched: Sequence[Record], database: Database, into: Judgement) -> None:
    """Every launched job is a row; one of the schedule as it stands is not obsolete."""
    ids = {(record.key or b"").decode() for record in launched}
    for job in sorted(ids - database.jobs.keys()):
        into.miss(f"job {job} was never stored")
    for job in sorted(database.jobs.keys() - ids):
        into.double(f"job {job} was stored but never launched")
    for job, row in sorted(database.jobs.items()):
        record = database.schedules[ScheduleRef.parse(row.satisfaction.schedule)]
        if row.obsolete and record.exists and record.oldest_valid_generation <= row.satisfaction.generation:
            into.miss(f"job {job} was stored as obsolete, but its generation stands")
