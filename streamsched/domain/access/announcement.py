"""Which events a caller may announce."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from streamsched.domain.access.grant import ALLOWED, AccessVerdict, Caller, Denied
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import Refusal
from streamsched.domain.events.ancestors import NO_ANCESTORS
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.jobs.run import job_of


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


def _without_foreign_run(caller: Caller, event: Event) -> Event:
    """The event without the run that made its commit, when the caller may not speak for the job of that run: another
    attempt of the job may, and announces what the run left unannounced. An end of a program is without ancestors: only
    the end of a run that is stored here has them, and any other is its own.
    """
    fact = event.fact
    if isinstance(fact, ProgramReached) and fact.ancestors:
        return replace(event, fact=replace(fact, ancestors=NO_ANCESTORS))
    may = not isinstance(fact, PartitionsAdded) or not fact.run or caller.may_fence(job_of(fact.run)) is ALLOWED
    return event if may else without_run(event)


def without_run(event: Event) -> Event:
    """The event as the log has it. Who made a commit is kept with the run; those who wait for the dataset, perhaps in
    other namespaces, do not read it.
    """
    fact = event.fact
    if not isinstance(fact, PartitionsAdded) or not fact.run:
        return event
    return replace(event, fact=replace(fact, run=""))


def permitted_events(caller: Caller, events: Iterable[Event]) -> tuple[list[Event], list[Refusal]]:
    """The events that the caller may announce, in order, and a refusal of each other, with its index."""
    may: list[Event] = []
    denied: list[Refusal] = []
    for index, event in enumerate(events):
        verdict = may_announce(caller, event.fact)
        if isinstance(verdict, Denied):
            denied.append(Refusal(index, "$", verdict.reason))
        else:
            may.append(_without_foreign_run(caller, event))
    return may, denied
