"""What a schedule should do, said as simply as possible: read the whole log again for every question.

Shares the vocabulary of triggers and events with the product, and no line of its accumulation. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.match import Glob, Match, OneOf
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    AtLeast,
    CustomEvent,
    Leaf,
    Partitions,
    Per,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Total,
    Trigger,
    Unless,
    Within,
    leaf_id,
    leaves,
)


class ExpectedJob(NamedTuple):
    """A job, by value: `place` is that of the signal in the log that completed it."""

    place: int
    generation: int
    sequence: int
    contributions: tuple[tuple[str, int, tuple[str, ...]], ...]


class Unit(NamedTuple):
    """The smallest thing a leaf counts: one partition, one byte, one time. Those of a total differ in size. `key` is
    that of the partition, where one counts once.
    """

    event: str
    size: int
    key: str = ""


class Pool(NamedTuple):
    """What a leaf has, and whether it has had enough since something was taken."""

    units: list[Unit]
    enough: bool


#: Places in the log after which so many of the oldest units were taken.
Spent = Sequence[tuple[int, int]]
EVERYTHING = 2**62


class Judge(NamedTuple):
    """The definition in force at the end of a log."""

    put: Put
    since: int


def judge(log: Sequence[Signal]) -> Judge | None:
    """Who judges after this log."""
    found: Judge | None = None
    for place, signal in enumerate(log):
        if isinstance(signal, Put) and (found is None or signal.generation > found.put.generation):
            found = Judge(signal, place)
        if isinstance(signal, Drop) and found is not None and signal.generation >= found.put.generation:
            found = None
    return found


def expected_jobs(log: Sequence[Signal]) -> list[ExpectedJob]:
    """Every job that this log must start."""
    jobs: list[ExpectedJob] = []
    last_fire = -1
    for place, signal in enumerate(log):
        judging = judge(log[: place + 1])
        if judging is None or not isinstance(signal, Occurred) or not judging.put.enabled:
            continue
        seen = [(i, s.event) for i, s in enumerate(log[: place + 1]) if i > judging.since and isinstance(s, Occurred)]
        if judging.put.consumption is Consumption.PAIRED:
            jobs += [job for job in paired(judging.put, seen)[0] if job.place == place]
        elif holds(judging.put.trigger, judging.put, seen, last_fire):
            mine = [job for job in jobs if job.place > judging.since]
            reported = given(judging.put, seen, last_fire)
            jobs.append(ExpectedJob(place, judging.put.generation, len(mine) + 1, reported))
            last_fire = place
    return jobs


def progress(log: Sequence[Signal]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Leaf → how much and which events it has at the end of the log; empty when there is no enabled definition."""
    judging = judge(log)
    if judging is None or not judging.put.enabled:
        return {}
    jobs = expected_jobs(log)
    last_fire = jobs[-1].place if jobs else -1
    seen = [(i, s.event) for i, s in enumerate(log) if i > judging.since and isinstance(s, Occurred)]
    if judging.put.consumption is Consumption.PAIRED:
        left = paired(judging.put, seen)[1]
        return {leaf: reported(some) for leaf, some in left.items() if some}
    return {leaf: (count, ids) for leaf, count, ids in given(judging.put, seen, last_fire)}


def paired(put: Put, seen: list[tuple[int, Event]]) -> tuple[list[ExpectedJob], dict[str, list[Unit]]]:
    """The jobs of a definition that uses up exactly what it asks for, and the units that are left: it lays them out one
    by one, in order, and counts how many of each leaf are spent.
    """
    jobs: list[ExpectedJob] = []
    spent: dict[str, list[tuple[int, int]]] = {leaf_id(leaf): [] for leaf in leaves(put.trigger)}
    left: dict[str, Pool] = {}
    for place in [i for i, _ in seen]:
        upto = [(i, event) for i, event in seen if i <= place]
        while True:
            left = {leaf_id(leaf): pool(leaf, put, upto, spent[leaf_id(leaf)]) for leaf in leaves(put.trigger)}
            chosen = used(put.trigger, left)
            if chosen is None:
                break
            contributions: list[tuple[str, int, tuple[str, ...]]] = []
            for leaf in dict.fromkeys(leaves(put.trigger)):
                if leaf_id(leaf) in chosen:
                    some = left[leaf_id(leaf)].units
                    enough = enough_of(leaf, some)
                    contributions.append((leaf_id(leaf), *reported(some[:enough])))
                    spent[leaf_id(leaf)].append((place, enough))
            jobs.append(ExpectedJob(place, put.generation, len(jobs) + 1, tuple(contributions)))
    return jobs, {leaf: each.units for leaf, each in left.items()}


def enough_of(leaf: Leaf, some: list[Unit]) -> int:
    """How many of the oldest are enough; what adds nothing goes with what came before it in its commit."""
    enough = next((n for n in range(len(some) + 1) if sum(u.size for u in some[:n]) >= asked(leaf)), len(some))
    while enough < len(some) and not some[enough].size and some[enough].event == some[enough - 1].event:
        enough += 1
    return enough


def used(trigger: Trigger, left: dict[str, Pool]) -> set[str] | None:
    """The leaves a satisfaction uses up, those written first; None when the trigger does not hold."""
    match trigger:
        case AllOf(triggers=children):
            wanted = len(children)
        case AnyOf(triggers=children):
            wanted = 1
        case AtLeast(count=wanted, triggers=children):
            pass
        case Then() | Unless() | Within() | Quiet() | Silence() | Per():
            raise ValueError(f"not for this oracle: {trigger}")
        case _:
            return {leaf_id(trigger)} if left[leaf_id(trigger)].enough else None
    some = [chosen for child in children if (chosen := used(child, left)) is not None]
    return set[str]().union(*some[:wanted]) if len(some) >= wanted else None


def pool(leaf: Leaf, put: Put, seen: list[tuple[int, Event]], spent: Spent) -> Pool:
    """What a leaf has after the log, each partition, byte and time apart, when some were taken in between."""
    added = {i: some for i, _, some in amounts(leaf, put, seen)}
    found: list[Unit] = []
    enough = False
    for i, event in seen:
        if isinstance(leaf, Partitions | Total) and leaf.distinct and isinstance(event.fact, PartitionsAdded):
            found = written(leaf, found, event, event.fact)
        elif isinstance(leaf, Total) and isinstance(event.fact, PartitionsAdded) and i in added:
            found += [Unit(event.id, size) for size in sizes(leaf, event.fact) if size]
        else:
            found += [Unit(event.id, 1)] * added.get(i, 0)
        enough = enough or sum(u.size for u in found) >= asked(leaf)
        while put.consumption is Consumption.LATEST and sum(u.size for u in found[1:]) >= asked(leaf):
            found = found[1:]
        for some in [some for place, some in spent if place == i]:
            found = found[some:]
            enough = sum(u.size for u in found) >= asked(leaf)
    return Pool(found, enough)


def written(leaf: Partitions | Total, had: list[Unit], event: Event, fact: PartitionsAdded) -> list[Unit]:
    """What a leaf has that counts a partition once, after a commit: each partition stands where it was written last."""
    if fact.dataset != leaf.dataset:
        return had
    last = {each.key: each for each in fact.partitions if suits(leaf.match, each.values)}
    some = [Unit(event.id, 1 if isinstance(leaf, Partitions) else sized(leaf, each), key) for key, each in last.items()]
    if isinstance(leaf, Partitions) and not leaf.match.columns:
        some += [Unit(event.id, 1)] * (fact.count - len(fact.partitions))
    if not any(unit.size or unit.key in {each.key for each in had} for unit in some):
        return had
    return [each for each in had if each.key not in last] + some


def reported(some: list[Unit]) -> tuple[int, tuple[str, ...]]:
    return sum(unit.size for unit in some), tuple(dict.fromkeys(unit.event for unit in some))


def asked(leaf: Leaf) -> int:
    match leaf:
        case Partitions(count=wanted) | CustomEvent(times=wanted) | ProgramStatus(times=wanted):
            return wanted
        case StreamGrowth(bytes=wanted) | Total(amount=wanted):
            return wanted
        case _:
            return 1


def holds(trigger: Trigger, put: Put, seen: list[tuple[int, Event]], last_fire: int) -> bool:
    match trigger:
        case AllOf(triggers=children):
            return all(holds(child, put, seen, last_fire) for child in children)
        case AnyOf(triggers=children):
            return any(holds(child, put, seen, last_fire) for child in children)
        case AtLeast(count=wanted, triggers=children):
            return sum(holds(child, put, seen, last_fire) for child in children) >= wanted
        case Then() | Unless() | Within() | Quiet() | Silence() | Per():
            raise ValueError(f"not for this oracle: {trigger}")
        case _:
            return pool(trigger, put, seen, [(last_fire, EVERYTHING)]).enough


def given(put: Put, seen: list[tuple[int, Event]], last_fire: int) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, int, tuple[str, ...]]] = {}
    for leaf in leaves(put.trigger):
        counted = pool(leaf, put, seen, [(last_fire, EVERYTHING)]).units
        if counted:
            found[leaf_id(leaf)] = (leaf_id(leaf), *reported(counted))
    return tuple(found.values())


def amounts(leaf: Leaf, put: Put, seen: list[tuple[int, Event]]) -> list[tuple[int, Event, int]]:
    """What each event since the definition came into force adds to a leaf, where it adds anything."""
    found: list[tuple[int, Event, int]] = []
    size: int | None = None
    for i, event in seen:
        added = 0
        match leaf, event.fact:
            case Partitions(dataset=wanted, match=match), PartitionsAdded(dataset=dataset) as fact if dataset == wanted:
                added = sum(suits(match, p.values) for p in fact.partitions)
                if not match.columns:
                    added = fact.count
            case Total(dataset=wanted), PartitionsAdded(dataset=dataset) as fact if dataset == wanted:
                added = sum(sizes(leaf, fact))
            case ProgramStatus(program=wanted, outcomes=outcomes, match=match), ProgramReached() as fact:
                added = int(fact.program == wanted and fact.outcome in outcomes and suits(match, fact.arguments))
            case CustomEvent(name=wanted, match=match), CustomHappened(name=name, attributes=attributes):
                added = int(name == wanted and suits(match, attributes))
            case StreamGrowth(stream=wanted), StreamSize(stream=stream, bytes=now, absolute=absolute):
                if stream != wanted:
                    continue
                if not absolute:
                    added, size = now, None if size is None else size + now
                elif size is None:
                    size = now
                else:
                    added, size = (now - size if now >= size else now), now
            case _, Ticked(generation=generation, leaf=name):
                added = int(generation == put.generation and name == leaf_id(leaf))
        if added:
            found.append((i, event, added))
    return found


def sizes(leaf: Total, fact: PartitionsAdded) -> list[int]:
    """The sizes that are known of the partitions that a total asks for."""
    wanted = [partition for partition in fact.partitions if suits(leaf.match, partition.values)]
    known = [partition.rows if leaf.measure == "rows" else partition.bytes for partition in wanted]
    return [size for size in known if size is not None]


def sized(leaf: Total, partition: Partition) -> int:
    """How large a partition is; one without a reported size adds nothing."""
    return (partition.rows if leaf.measure == "rows" else partition.bytes) or 0


def suits(match: Match, values: Mapping[str, str]) -> bool:
    """Whether values are as asked, patterns read letter by letter."""
    for column, wanted in match.columns:
        if column not in values:
            return False
        if isinstance(wanted, OneOf) and values[column] not in wanted.values:
            return False
        if isinstance(wanted, Glob) and not like(wanted.pattern, values[column]):
            return False
    return True


def like(pattern: str, text: str) -> bool:
    """Whether a text is like a pattern of stars, question marks and plain characters."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(like(pattern[1:], text[skip:]) for skip in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and like(pattern[1:], text[1:])
