"""The plan of a change: what it would do, field by field, and what it would lose. Pure.

A plan uses the same decisions as the change itself, on the current records. Accumulations come from the read model,
which may lag briefly. `Preview.token` identifies a plan: a change with the token of a confirmed plan is refused if its
actions or losses differ from that plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamsched.codec.schedules.expectation import expectation_to_json
from streamsched.codec.schedules.recipient import recipient_to_json
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.errors import PlanChangedError
from streamsched.domain.fold.kept_state import match_slots
from streamsched.domain.fold.plan import LeafSlot, Shape, build_plan
from streamsched.domain.names import ScheduleRef
from streamsched.domain.quotas.quota import NO_GROWTH, QuotaGrowth
from streamsched.domain.revision import digest
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.triggers.keys.known_set import values_text
from streamsched.domain.triggers.trigger import Trigger, correlations
from streamsched.store.catalog.quota_counts import growth_of
from streamsched.store.catalog.records import (
    Action,
    AppChange,
    AppExpectations,
    BrokenJoin,
    ExpectationChange,
    ForeignWait,
    ProgramChange,
    RecipientsChange,
    ScheduleChange,
    ScheduleStatus,
)

_NAMES = frozenset({"namespace", "application", "name"})


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of a definition that changes, as JSON; a trigger also as text."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PotentialLoss:
    """What one leaf of the current trigger has accumulated.

    Attributes:
        leaf: as text.
        fits: the new trigger has the same leaf, perhaps with another count; a change that keeps preserves it.
    """

    leaf: str
    have: int
    need: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a schedule loses by a change; false when it loses nothing."""

    stakes: tuple[PotentialLoss, ...] = ()
    waiting_jobs: int = 0
    open_keys: int = 0
    parked: int = 0

    def __bool__(self) -> bool:
        return bool(self.stakes or self.waiting_jobs or self.open_keys or self.parked)


@dataclass(frozen=True, slots=True)
class ForeseenChange:
    """The planned change of one schedule.

    Attributes:
        keeps: whether the requested change keeps what fits.
        fields: the differences; empty when the schedule is created or deleted.
        stakes: what it has accumulated; lost unless the change keeps and it fits.
        waiting_jobs: jobs that end as OBSOLETE unless the change keeps.
        open_keys: open keys of a correlated trigger; lost unless the change keeps.
        parked: parked signals of a schedule in error; lost unless the change keeps.
        generation: the current one; 0 when there is none.
        join: how the new trigger counts the programs of an `&`; empty for any other.
    """

    schedule: ScheduleRef
    action: Action
    reason: str
    keeps: bool
    fields: tuple[Difference, ...] = ()
    stakes: tuple[PotentialLoss, ...] = ()
    waiting_jobs: int = 0
    open_keys: int = 0
    parked: int = 0
    generation: int = 0
    join: str = ""

    @property
    def loss(self) -> Dropped:
        """What the schedule loses."""
        if self.keeps:
            return Dropped(tuple(stake for stake in self.stakes if not stake.fits))
        return Dropped(self.stakes, self.waiting_jobs, self.open_keys, self.parked)

    @property
    def loses(self) -> bool:
        """Whether accumulations, waiting jobs or the schedule itself are lost."""
        return self.action is Action.DELETED or bool(self.loss)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do; contains only what differs.

    Attributes:
        token: identifies the plan.
        origin: the file the app was last deployed from, as `host:path`; empty when unknown.
        growth: what it would add to the counts that quotas limit.
        foreign_waits, broken_joins: as in `AppChange`; they are no part of the token.
    """

    programs: tuple[ProgramChange, ...]
    schedules: tuple[ForeseenChange, ...]
    token: str = ""
    origin: str = ""
    growth: QuotaGrowth = NO_GROWTH
    foreign_waits: tuple[ForeignWait, ...] = ()
    broken_joins: tuple[BrokenJoin, ...] = ()
    expectations: tuple[ExpectationChange, ...] = ()
    recipients: RecipientsChange | None = None

    @property
    def differs(self) -> bool:
        """Whether anything would change."""
        return bool(self.programs or self.schedules or self.expectations or self.recipients)

    def losses(self) -> Mapping[ScheduleRef, Dropped]:
        """What each of its schedules loses."""
        return {each.schedule: each.loss for each in self.schedules}

    @property
    def loses(self) -> bool:
        """Whether accumulations, waiting jobs or schedules would be lost."""
        return any(each.loses for each in self.schedules)


def foresee(change: AppChange, known: Mapping[ScheduleRef, ScheduleStatus], *, origin: str = "") -> Preview:
    """The plan of a decision; `known` are the current records of the schedules it changes."""
    schedules = tuple(
        replace(_foresee_change(each, known.get(ref)), join=change.joins.get(ref, ""))
        for each in change.schedules
        for ref in [each.after.definition.ref]
    )
    lost = [
        [str(each.schedule), *map(bool, (each.loss.stakes, each.loss.waiting_jobs)), bool(each.loss.open_keys)]
        for each in schedules
        if each.loss
    ]
    token = f"{_decision(change)}.{_digest(lost)}"
    growth, waits = growth_of(change.schedules), tuple(change.foreign_waits)
    broken, expectations = tuple(change.broken_joins), tuple(change.expectations)
    return Preview(
        tuple(change.programs), schedules, token, origin, growth, waits, broken, expectations, change.recipients
    )


def program_differences(change: ProgramChange) -> Iterator[Difference]:
    """The fields of a program that an update changes; none of a new or removed one."""
    if change.before is not None:
        yield from _fields(program_to_json(change.before), program_to_json(change.program))


def expectation_differences(change: ExpectationChange) -> Iterator[Difference]:
    """The fields of an expectation that an update changes; none of a new or removed one."""
    if change.before is not None and change.after is not None:
        yield from _fields(expectation_to_json(change.before), expectation_to_json(change.after))


def app_revision(
    programs: Collection[Program], generations: Mapping[ScheduleRef, int], watched: AppExpectations
) -> str | None:
    """The revision of an app with these programs, schedules and expectations; None of one without any."""
    if not programs and not generations and not watched:
        return None
    definitions = {str(each.ref): program_to_json(each) for each in programs}
    parts: list[object] = [definitions, {str(ref): generation for ref, generation in generations.items()}]
    if watched:
        parts.append({str(ref): expectation_to_json(each) for ref, each in watched.expectations.items()})
        parts.append([recipient_to_json(each) for each in watched.recipients])
    return digest(parts)


def check_plan(change: AppChange, plan: str | None, what: str) -> None:
    """Compares a decision with the confirmed token; None accepts any decision.

    Raises:
        PlanChangedError: they differ.
    """
    if plan is not None and plan.partition(".")[0] != _decision(change):
        raise PlanChangedError(what)


def _decision(change: AppChange) -> str:
    """Identifies the actions and the generations they apply to."""
    return _digest(
        [
            [[str(each.program.ref), each.action] for each in change.programs],
            [
                [str(each.after.definition.ref), each.action, each.before.generation if each.before else 0, each.keeps]
                for each in change.schedules
            ],
            [[str(each.ref), each.action] for each in change.expectations],
            change.recipients is not None,
        ]
    )


def _digest(value: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:20]


def _foresee_change(change: ScheduleChange, status: ScheduleStatus | None) -> ForeseenChange:
    before, after = change.before, change.after
    ref = after.definition.ref
    if before is None or not before.exists:
        return ForeseenChange(ref, change.action, change.reason, change.keeps)
    progress = None if status is None else status.progress
    return ForeseenChange(
        ref,
        change.action,
        change.reason,
        change.keeps,
        fields=tuple(_differences(before.definition, after.definition)),
        stakes=tuple(_stakes(progress, before.definition, after.definition if after.exists else None)),
        waiting_jobs=0 if status is None else status.waiting_jobs,
        open_keys=0 if status is None else status.open_keys,
        parked=0 if status is None or status.halt is None else status.halt.parked,
        generation=before.generation,
    )


def _differences(before: Schedule, after: Schedule) -> Iterator[Difference]:
    yield from _fields(schedule_to_json(before), schedule_to_json(after))
    if before.trigger != after.trigger:
        yield Difference("when", str(before.trigger), str(after.trigger))
        yield from _known_sets(before.trigger, after.trigger)


def _known_sets(before: Trigger, after: Trigger) -> Iterator[Difference]:
    """The known sets that change, which may be too long for the texts of the triggers."""
    sets = [dict.fromkeys(per.each for per in correlations(each) if per.each is not None) for each in (before, after)]
    for was in sets[0]:
        now = next((each for each in sets[1] if each.column == was.column), None)
        if now is None or now in sets[0]:
            continue
        gone = [each for each in was.values if each not in now.parts]
        new = [each for each in now.values if each not in was.parts]
        texts = [f"{len(now.values)} values", *([f"{values_text(new)} new"] if new else [])]
        if gone:
            texts.append(f"{values_text(gone)} gone, with what open keys have of it")
        yield Difference(f"each {was.column}", f"{len(was.values)} values", ", ".join(texts))


def _fields(was: Mapping[str, Any], becomes: Mapping[str, Any]) -> Iterator[Difference]:
    for field in (name for name in {**becomes, **was} if name not in _NAMES):
        if was.get(field) != becomes.get(field):
            yield Difference(field, was.get(field), becomes.get(field))


def _stakes(progress: Mapping[str, Any] | None, before: Schedule, after: Schedule | None) -> Iterator[PotentialLoss]:
    """The leaves with a non-zero count, each once."""
    old = build_plan(before.trigger)
    fits = {} if after is None else match_slots(old, build_plan(after.trigger))
    seen: set[str] = set()
    for slot, node in _leaf_nodes(old.shape, progress or {}):
        if node.get("have") and slot not in seen:
            seen.add(slot)
            yield PotentialLoss(str(node["text"]), int(node["have"]), int(node["need"]), slot in fits)


def _leaf_nodes(shape: Shape, node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each leaf's slot id with its node of the explanation, which has the shape of the trigger."""
    if isinstance(shape.is_for, LeafSlot):
        yield shape.is_for.id, node
    for child, below in zip(shape.children, node.get("children") or (), strict=False):
        yield from _leaf_nodes(child, below)
