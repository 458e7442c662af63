"""Whether every signal came where it had to, as often and in the order it had to: stations 1 to 4 of an event's way.

The log's order at each home is the truth of what came when; everything else is worked out from it and from what was
emitted and asked for, by models so naive that they can be believed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from streamsched.domain.events.event import Ticked
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.signal import Drop, Occurred, Put, Subscribe, Unsubscribe
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


def judge_homes(
    homes: Homes, emitted: Mapping[str, Json], runs: Iterable[tuple[str, str, bool]], into: Judgement
) -> None:
    """What came in from outside, and from the installation's own runs that have completed: (run, program,
    whether it is muted)."""
    came = {key: Counter(_ids(log)) for key, log in homes.items() if not key.startswith(_SCHEDULE)}
    for event_id, event in emitted.items():
        if not came.get(key_of(event), Counter[str]())[event_id]:
            into.miss(f"event {event_id} never came to the home of {key_of(event)}")
    for run, program, muted in runs:
        times = came.get(f"program:{program}:succeeded", Counter[str]())[f"{run}:COMPLETED"]
        if not times and not muted:
            into.miss(f"the end of run {run} was never told")
        if times > (not muted):
            into.double(f"the end of run {run}, {'muted' if muted else 'heard'}, was published {times} times")
    wanted, arrived = _forwarded(homes), _arrived(homes)
    for place in wanted.keys() | arrived.keys():
        into.compare(f"events of {place[0]} to {place[1]}", wanted.get(place, ()), arrived.get(place, ()))


def judge_changes(homes: Homes, asked: Asked, after: Mapping[str, int], into: Judgement) -> None:
    """Every change came once, in its order, as it was asked for; none that had returned was overlooked (promise G4)."""
    for key, log in homes.items():
        control = Counter(
            (type(signal).__name__, str(signal.schedule), signal.generation)
            for _, signal in log
            if isinstance(signal, Put | Drop | Subscribe | Unsubscribe)
        )
        for what, times in control.items():
            if times > 1:
                into.double(f"at {key}: {what} came {times} times")
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
        _promised(name, log, asked, after, into)


def judge_ticks(homes: Homes, asked: Asked, into: Judgement) -> None:
    """Each tick once, in order, none missing in between (promise G6)."""
    for name, definition in asked.schedules.items():
        timed = next((leaf for leaf in leaves(definition.trigger) if isinstance(leaf, Cron | At | Every)), None)
        log = homes.get(f"{_SCHEDULE}{definition.ref}", ())
        if timed is None or not log:
            continue
        came = [s.event.fact.due_at for _, s in log if isinstance(s, Occurred) and isinstance(s.event.fact, Ticked)]
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


def _promised(name: str, log: Sequence[Stamped], asked: Asked, after: Mapping[str, int], into: Judgement) -> None:
    """An event that was emitted after a change had returned is judged by it, or by a later one."""
    mine = [(place, each.generation) for place, each in enumerate(asked.returned, 1) if each.schedule == name]
    current = 0
    for _, signal in log:
        if isinstance(signal, Put | Drop):
            current = max(current, signal.generation)
        elif isinstance(signal, Occurred) and signal.event.id in after:
            promised = max((generation for place, generation in mine if place <= after[signal.event.id]), default=0)
            if current < promised:
                into.spoil(f"event {signal.event.id} to {name} met generation {current}, not {promised}")


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


def _ids(log: Sequence[Stamped]) -> Iterator[str]:
    return (signal.event.id for _, signal in log if isinstance(signal, Occurred))
