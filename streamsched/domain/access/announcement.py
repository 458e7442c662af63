"""Which events a caller may announce."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from streamsched.domain.access.grant import AccessVerdict, Caller, Denied
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import Refusal
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)


def may_announce(caller: Caller, fact: Fact) -> AccessVerdict:
    """Whether the caller may emit an event with this fact. The name of a program is `app.program`."""
    match fact:
        case PartitionsAdded(dataset=ref) | StreamSize(stream=ref) | CustomHappened(name=ref):
            return caller.may_emit(ref.namespace, ref.name)
        case ProgramReached(program=program):
            return caller.may_emit(program.namespace, f"{program.app}.{program.name}")
        case Ticked(schedule=schedule):
            return caller.may(Permission.ADMINISTER, schedule.namespace)
        case _:
            assert_never(fact)


def permitted_events(caller: Caller, events: Iterable[Event]) -> tuple[list[Event], list[Refusal]]:
    """The events that the caller may announce, in order, and a refusal of each other, with its index."""
    may: list[Event] = []
    denied: list[Refusal] = []
    for index, event in enumerate(events):
        verdict = may_announce(caller, event.fact)
        if isinstance(verdict, Denied):
            denied.append(Refusal(index, "$", verdict.reason))
        else:
            may.append(event)
    return may, denied
