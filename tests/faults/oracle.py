"""What must have been launched, by a model so naive that it can be believed. Shares no code with the fold.

The log's order at a schedule's home is the truth of what came when; that nothing is missing from it or in it twice is
checked against what was emitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement import Judgement


@dataclass(frozen=True, slots=True)
class ExpectedSchedule:
    """A schedule in the oracle's words: key → how much of it; `every`: all of them, else any."""

    name: str
    amounts: Mapping[str, int]
    every: bool


def judge(
    expected_schedule: ExpectedSchedule,
    *,
    emitted: Mapping[str, Mapping[str, Any]],
    arrived: Sequence[str],
    launched: Sequence[tuple[int, Sequence[str]]],
    into: Judgement,
) -> None:
    """Compares one schedule's launches with what must have been launched.

    Args:
        emitted: event id → event as it was sent, of this trial.
        arrived: event ids as the log has them at the schedule's home, in order.
        launched: (sequence, event ids) as the log has them, in order.
    """
    meant = {event_id for event_id, event in emitted.items() if key_of(event) in expected_schedule.amounts}
    times = Counter(arrived)
    for event_id in meant - times.keys():
        into.miss(f"{expected_schedule.name}: event {event_id} never came home")
    for event_id, count in times.items():
        if count > 1 or event_id not in meant:
            into.double(f"{expected_schedule.name}: event {event_id} came {count} times")
    expected = [sorted(ids) for ids in launches(expected_schedule, [emitted[event_id] for event_id in arrived])]
    sequences = [sequence for sequence, _ in launched]
    if sequences != sorted(set(sequences)):
        into.double(
            f"{expected_schedule.name}: launches in this order: {sequences}", len(sequences) - len(set(sequences))
        )
    found = {sequence: sorted(ids) for sequence, ids in launched}
    for sequence, ids in enumerate(expected, 1):
        if sequence not in found:
            into.miss(f"{expected_schedule.name}: launch {sequence} is missing: {ids}")
        elif found[sequence] != ids:
            into.spoil(f"{expected_schedule.name}: launch {sequence} has {found[sequence]}, must have {ids}")
    for sequence in found.keys() - set(range(1, len(expected) + 1)):
        into.double(f"{expected_schedule.name}: launch {sequence} should not be: {found[sequence]}")


def launches(expected_schedule: ExpectedSchedule, events: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """The ids of each launch: at every event, counts again all that came since the last launch."""
    done: list[list[str]] = []
    since: list[Mapping[str, Any]] = []
    for event in events:
        since.append(event)
        holds = [
            sum(amount(each) for each in since if key_of(each) == wanted) >= needed
            for wanted, needed in expected_schedule.amounts.items()
        ]
        if all(holds) if expected_schedule.every else any(holds):
            done.append([each["id"] for each in since])
            since = []
    return done


def key_of(event: Mapping[str, Any]) -> str:
    """What an event is about, from its JSON."""
    data = event["data"]
    match event["type"]:
        case "partitions.added":
            return f"partition:{data['dataset']}"
        case "stream.size":
            return f"stream:{data['stream']}"
        case "program.status":
            return f"program:{data['program']}:{data['outcome']}"
        case _:
            return f"event:{data['name']}"


def amount(event: Mapping[str, Any]) -> int:
    """How much an event adds."""
    data = event["data"]
    match event["type"]:
        case "partitions.added":
            return len(data["partitions"])
        case "stream.size":
            return data["bytes"]
        case _:
            return 1
