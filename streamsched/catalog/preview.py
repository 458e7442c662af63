"""What a change would do, before it is made: field by field, with what is at stake. Pure.

The same decisions as the change itself, over what stands now; so it is right unless somebody changes something between.
What has accumulated is read from the read model, which may lag by a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamsched.codec.schedule import schedule_to_json
from streamsched.domain.kept import fitting
from streamsched.domain.names import ScheduleRef
from streamsched.domain.plan import Shape, Slot, planned
from streamsched.domain.schedule import Schedule
from streamsched.ports.catalog import Action, AppChange, ProgramChange, ScheduleChange, ScheduleStatus

_NAMES = frozenset({"namespace", "application", "name"})


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of a definition that changes, as JSON; a trigger also in words."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Stake:
    """What one leaf of the trigger that stands has accumulated.

    Attributes:
        leaf: in words.
        fits: the new trigger has this very leaf, or one that wants more or less of the same; a change that keeps saves
            it.
    """

    leaf: str
    have: int
    need: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would become of one schedule.

    Attributes:
        keeps: whether the change as it is asked for keeps what fits.
        fields: what is different; none for one that is created or deleted.
        stakes: what it has accumulated; lost unless the change keeps and it fits.
        waiting_jobs: jobs that end as OBSOLETE unless the change keeps.
    """

    schedule: ScheduleRef
    action: Action
    reason: str
    keeps: bool
    fields: tuple[Difference, ...] = ()
    stakes: tuple[Stake, ...] = ()
    waiting_jobs: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do; equal things are not in it."""

    programs: tuple[ProgramChange, ...]
    schedules: tuple[Foreseen, ...]

    @property
    def differs(self) -> bool:
        """Whether anything would change."""
        return bool(self.programs or self.schedules)


def foreseen(change: AppChange, known: Mapping[ScheduleRef, ScheduleStatus]) -> Preview:
    """The preview of a decision, with what is known of the schedules it changes."""
    return Preview(
        tuple(change.programs),
        tuple(_foreseen(each, known.get(each.after.definition.ref)) for each in change.schedules),
    )


def _foreseen(change: ScheduleChange, status: ScheduleStatus | None) -> Foreseen:
    before, after = change.before, change.after
    ref = after.definition.ref
    if before is None or not before.exists:
        return Foreseen(ref, change.action, change.reason, change.keeps)
    progress = None if status is None else status.progress
    return Foreseen(
        ref,
        change.action,
        change.reason,
        change.keeps,
        fields=tuple(_differences(before.definition, after.definition)),
        stakes=tuple(_stakes(progress, before.definition, after.definition if after.exists else None)),
        waiting_jobs=0 if status is None else status.waiting_jobs,
    )


def _differences(before: Schedule, after: Schedule) -> Iterator[Difference]:
    was, becomes = schedule_to_json(before), schedule_to_json(after)
    for field in (name for name in becomes if name not in _NAMES):
        if was.get(field) != becomes[field]:
            yield Difference(field, was.get(field), becomes[field])
    if before.trigger != after.trigger:
        yield Difference("when", str(before.trigger), str(after.trigger))


def _stakes(progress: Mapping[str, Any] | None, before: Schedule, after: Schedule | None) -> Iterator[Stake]:
    """The leaves that have something, each once."""
    old = planned(before.trigger)
    fits = {} if after is None else fitting(old, planned(after.trigger))
    told: set[str] = set()
    for slot, node in _counted(old.shape, progress or {}):
        if node.get("have") and slot not in told:
            told.add(slot)
            yield Stake(str(node["text"]), int(node["have"]), int(node["need"]), slot in fits)


def _counted(shape: Shape, node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each leaf's slot with its node of the explanation, which has the shape of the trigger."""
    if isinstance(shape.is_for, Slot):
        yield shape.is_for.id, node
    for child, below in zip(shape.children, node.get("children") or (), strict=False):
        yield from _counted(child, below)
