"""Whether every signal came where it had to, as often and in the order it had to: stations 1 to 4 of an event's way.

The log's order at each home is the truth of what came when; everything else is worked out from it and from what was
emitted and asked for, by models so naive that they can be believed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from streamsched.domain.events.event import Ticked
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.triggers.time_leaf import At, Cron
from streamsched.domain.triggers.trigger import Every, event_keys, leaves
from tests.faults.load.traffic import Json, key_of
from tests.faults.load.user import Returned
from tests.support.judgement import Judgement
from tests.support.rerun import Stamped

_SCHEDULE: Final = "schedule:"

Homes = Mapping[str, Sequence[Stamped]]


class Asked(Protocol):
    """What was asked for: the definitions by name and whether each is enabled, as last changed; the changes that have
    returned, in order.
    """

    @property
    def schedules(self) -> Mapping[str, Schedule]: ...

    @property
    def enabled(self) -> Mapping[str, bool]: ...

    @property
    def returned(self) -> Sequence[Returned]: ...


class Control(NamedTuple):
    """A signal by which a change of a schedule comes to a home."""

    home: str
    kind: str
    schedule: str
    generation: int


def control_of(key: str, signal: Signal) -> Control | None:
    """None: it is no such signal."""
    if not isinstance(signal, Put | Drop | Subscribe | Unsubscribe):
        return None
    return Control(key, type(signal).__name__, str(signal.schedule), signal.generation)


def judge_homes(
    homes: Homes, emitted: Mapping[str, Json], runs: Iterable[tuple[str, str, bool]], into: Judgement
) -> None:
    """What came in from outside, and from the installation's own runs that have completed: (run, program,
    whether it is muted)."""
    judge_arrivals(homes, {event_id: (key_of(event), None) for event_id, event in emitted.items()}, into)
    came = _came(homes)
    for run, program, muted in runs:
        times = came.get(f"program:{program}:succeeded", Counter[str]())[f"{run}:COMPLETED"]
        if not times and not muted:
            into.miss(f"the end of run {run} was never told")
        if times > (not muted):
            into.double(f"the end of run {run}, {'muted' if muted else 'heard'}, was published {times} times")
    judge_forwards(homes, into)


def judge_arrivals(homes: Homes, sent: Mapping[str, tuple[str, int | None]], into: Judgement) -> None:
    """Event id → its key, and in how many copies it was sent: so many came to the home of its key; None: any number."""
    came = _came(homes)
    for event_id, (key, copies) in sent.items():
        times = came.get(key, Counter[str]())[event_id]
        if times < (copies or 1):
            into.miss(f"event {event_id} came {times} times to the home of {key}, not {copies or 'once'}")
        elif copies is not None and times > copies:
            into.double(f"event {event_id} came {times} times to the home of {key}, not {copies}")


def judge_forwards(homes: Homes, into: Judgement) -> None:
    """The first copy of an event went to every schedule that listened to its key just then, in order; no other did."""
    wanted, arrived = _forwarded(homes), _arrived(homes)
    for place in wanted.keys() | arrived.keys():
        into.compare(f"events of {place[0]} to {place[1]}", wanted.get(place, ()), arrived.get(place, ()))


def judge_control(homes: Homes, wanted: Iterable[Control], into: Judgement) -> None:
    """What is wanted came, and nothing came twice."""
    came = Counter(control_of(key, signal) for key, log in homes.items() for _, signal in log)
    del came[None]
    for control in wanted:
        if not came[control]:
            into.miss(f"{control} never came")
    for control, times in came.items():
        if times > 1:
            into.double(f"{control} came {times} times")


def judge_changes(homes: Homes, asked: Asked, after: Mapping[str, int], into: Judgement) -> None:
    """Every change came once, in its order, as it was asked for; none that had returned was overlooked (promise G4)."""
    judge_control(homes, (), into)
    listening: dict[object, set[str]] = defaultdict(set)
    for key, log in homes.items():
        for ref in _listeners(log):
            listening[ref].add(key)
    for name, definition in asked.schedules.items():
        log = homes.get(f"{_SCHEDULE}{definition.ref}", ())
        puts = [signal for _, signal in log if isinstance(signal, Put)]
        if not puts:
            into.miss(f"{name}: its definition never came")
        elif puts[-1].trigger != definition.trigger or puts[-1].enabled != asked.enabled[name]:
            into.spoil(f"{name}: generation {puts[-1].generation} is not what was asked for last")
        listens = event_keys(definition.trigger) if asked.enabled[name] else frozenset[str]()
        if listening.get(definition.ref, set()) != listens:
            into.spoil(f"{name}: listens to {sorted(listening.get(definition.ref, ()))}")
        judge_promises(definition.ref, homes, asked.returned, after, into)


def judge_promises(
    ref: ScheduleRef, homes: Homes, returned: Sequence[Returned], after: Mapping[str, int], into: Judgement
) -> None:
    """An event that was emitted after a change had returned is judged by it, or by a later one. `after`: event id → how
    many changes had returned before.
    """
    mine = [(place, each.generation) for place, each in enumerate(returned, 1) if each.schedule == ref.name]
    current = 0
    for _, signal in homes.get(f"{_SCHEDULE}{ref}", ()):
        if isinstance(signal, Put | Drop):
            current = max(current, signal.generation)
        elif isinstance(signal, Occurred) and signal.event.id in after:
            promised = max((generation for place, generation in mine if place <= after[signal.event.id]), default=0)
            if current < promised:
                into.spoil(f"event {signal.event.id} to {ref} met generation {current}, not {promised}")


def judge_ticks(homes: Homes, asked: Asked, into: Judgement) -> None:
    """Each tick once, in order, none missing in between (promise G6)."""
    for name, definition in asked.schedules.items():
        timed = next((leaf for leaf in leaves(definition.trigger) if isinstance(leaf, Cron | At | Every)), None)
        log = homes.get(f"{_SCHEDULE}{definition.ref}", ())
        if timed is None or not log:
            continue
        came = [tick.due_at for tick in ticks_of(log)]
        wanted = _moments(timed, came, since=log[0][0])
        into.compare(f"ticks of {name}", [str(each) for each in wanted], [str(each) for each in came])


def _listeners(log: Sequence[Stamped]) -> Mapping[object, int]:
    """Schedule → generation of its subscription, at the end of an event key's log."""
    here: dict[object, int] = {}
    for _, signal in log:
        _control(here, signal)
    return here


def _forwarded(homes: Homes) -> dict[tuple[str, str], list[str]]:
    """(Event key, schedule) → the first copy of each event that came while it listened, in order."""
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, log in homes.items():
        if key.startswith(_SCHEDULE):
            continue
        here: dict[object, int] = {}
        seen: set[str] = set()
        for _, signal in log:
            _control(here, signal)
            if isinstance(signal, Occurred) and signal.event.id not in seen:
                seen.add(signal.event.id)
                for ref in here:
                    wanted[key, str(ref)].append(signal.event.id)
    return wanted


def _arrived(homes: Homes) -> dict[tuple[str, str], list[str]]:
    """(Event key, schedule) → the events that came, in order."""
    came: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, log in homes.items():
        if key.startswith(_SCHEDULE):
            for _, signal in log:
                if isinstance(signal, Occurred) and not isinstance(signal.event.fact, Ticked):
                    came[signal.event.key, key.removeprefix(_SCHEDULE)].append(signal.event.id)
    return came


def _control(here: dict[object, int], signal: object) -> None:
    match signal:
        case Subscribe(schedule=ref, generation=generation):
            here[ref] = max(generation, here.get(ref, -1))
        case Unsubscribe(schedule=ref, generation=generation) if here.get(ref, generation + 1) <= generation:
            del here[ref]
        case _:
            pass


def _moments(leaf: Cron | At | Every, came: Sequence[datetime], *, since: datetime) -> list[datetime]:
    """When a leaf ticks, from the first tick that came, or after `since` at the latest. A cron expression here names
    its seconds within one minute; the repetition of `every` is stopped by a change, so its last tick is any.
    """
    match leaf:
        case At(instant=at):
            every = [at]
        case Cron(expression=text):
            seconds, *rest = text.split()
            start = datetime.strptime(f"{since.year} {' '.join(rest[:4])}+0000", "%Y %M %H %d %m%z")
            every = [start + timedelta(seconds=int(second)) for second in seconds.split(",")]
        case Every(interval=step):
            count = (came[-1] - came[0]) // step + 1 if came else 0
            every = [came[0] + number * step for number in range(count)]
    return [each for each in every if each > since or each in came]


def ticks_of(log: Sequence[Stamped]) -> list[Ticked]:
    """Those that came to a schedule's home, in order."""
    return [
        signal.event.fact for _, signal in log if isinstance(signal, Occurred) and isinstance(signal.event.fact, Ticked)
    ]


def _came(homes: Homes) -> Mapping[str, Counter[str]]:
    """Event key → how often the event of an id came to its home."""
    return {
        key: Counter(signal.event.id for _, signal in log if isinstance(signal, Occurred))
        for key, log in homes.items()
        if not key.startswith(_SCHEDULE)
    }
