"""JSON of changes of apps, programs and schedules, of their plans, and of what they lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamsched.catalog.preview import (
    Difference,
    Dropped,
    ForeseenChange,
    PotentialLoss,
    Preview,
    expectation_differences,
    program_differences,
)
from streamsched.codec.schedules.recipient import recipient_to_json
from streamsched.domain.access.sight import Sees, sees_nothing
from streamsched.store.catalog.records import (
    AppChange,
    Applied,
    BrokenJoin,
    ExpectationChange,
    ForeignWait,
    ProgramChange,
    RecipientsChange,
)


def change_view(change: AppChange, sees: Sees = sees_nothing) -> dict[str, Any]:
    """The changed programs and schedules, and what waits in other namespaces for a removed program."""
    return {
        "programs": [_program_change(each) for each in change.programs],
        "schedules": [
            {
                "id": str(each.after.definition.ref),
                "action": each.action,
                "generation": each.after.generation,
                "enabled": each.after.enabled,
                "state": each.after.status,
                "keeps": each.keeps,
                "reason": each.reason,
                **_join_view(change.joins.get(each.after.definition.ref, "")),
            }
            for each in change.schedules
        ],
        "waitingElsewhere": _waiting_view(change.foreign_waits, sees),
        "expectations": [_expectation_change(each) for each in change.expectations],
        "onFailure": _recipients_view(change.recipients),
        **_broken_view(change.broken_joins),
    }


def preview_view(preview: Preview, sees: Sees = sees_nothing) -> dict[str, Any]:
    """A plan. `loses`: accumulated events, waiting jobs or schedules would be lost. `plan` identifies the plan: a
    change that is sent with it is refused if it would now do something else.
    """
    return {
        "dryRun": True,
        "plan": preview.token,
        "differs": preview.differs,
        "loses": preview.loses,
        "deployedFrom": preview.origin or None,
        "programs": [
            {**_program_change(each), "fields": [_difference_view(one) for one in program_differences(each)]}
            for each in preview.programs
        ],
        "schedules": [_planned_view(each) for each in preview.schedules],
        "waitingElsewhere": _waiting_view(preview.foreign_waits, sees),
        "expectations": [
            {**_expectation_change(each), "fields": [_difference_view(one) for one in expectation_differences(each)]}
            for each in preview.expectations
        ],
        "onFailure": _recipients_view(preview.recipients),
        **_broken_view(preview.broken_joins),
    }


def _planned_view(planned: ForeseenChange) -> dict[str, Any]:
    return {
        "id": str(planned.schedule),
        "action": planned.action,
        "reason": planned.reason,
        "keeps": planned.keeps,
        "loses": planned.loses,
        "fields": [_difference_view(one) for one in planned.fields],
        "accumulated": [{**_stake_view(one), "fits": one.fits} for one in planned.stakes],
        "waitingJobs": planned.waiting_jobs,
        "openKeys": planned.open_keys,
        "parkedSignals": planned.parked,
        **_join_view(planned.join),
    }


def _join_view(text: str) -> dict[str, Any]:
    """How an `&` of programs counts; nothing of another trigger."""
    return {"join": text} if text else {}


def _broken_view(broken: Sequence[BrokenJoin]) -> dict[str, Any]:
    """Schedules of the namespace whose join per run of an ancestor no longer gets the runs of a program."""
    found = [
        {
            "schedule": str(each.schedule),
            "ancestor": str(each.ancestor),
            "program": str(each.program),
            "text": str(each),
        }
        for each in broken
    ]
    return {"brokenJoins": found} if found else {}


def suspension_view(applied: Applied, before: Preview, sees: Sees = sees_nothing) -> dict[str, Any]:
    """The changes of a pause, a disablement or a deletion, with the losses of each schedule, as read just before, and
    the ended jobs.
    """
    view, losses = change_view(applied.change, sees), before.losses()
    for shown, each in zip(view["schedules"], applied.change.schedules, strict=True):
        shown["dropped"] = dropped_view(losses.get(each.after.definition.ref, Dropped()))
    return {**view, "endedJobs": list(applied.ended_jobs)}


def dropped_view(dropped: Dropped) -> dict[str, Any]:
    """The losses of a schedule."""
    return {
        "accumulated": [_stake_view(one) for one in dropped.stakes],
        "waitingJobs": dropped.waiting_jobs,
        "openKeys": dropped.open_keys,
        "parkedSignals": dropped.parked,
    }


def _stake_view(stake: PotentialLoss) -> dict[str, Any]:
    return {"leaf": stake.leaf, "have": stake.have, "need": stake.need}


def _difference_view(difference: Difference) -> dict[str, Any]:
    return {"field": difference.field, "before": difference.before, "after": difference.after}


def _program_change(change: ProgramChange) -> dict[str, Any]:
    return {"id": str(change.program.ref), "action": change.action, "reason": change.reason}


def _expectation_change(change: ExpectationChange) -> dict[str, Any]:
    return {"id": str(change.ref), "action": change.action, "when": str(change.after or change.before)}


def _recipients_view(change: RecipientsChange | None) -> dict[str, Any] | None:
    """Who is notified of failures before and after; None where it stays."""
    if change is None:
        return None
    return {name: [recipient_to_json(each) for each in getattr(change, name)] for name in ("before", "after")}


def _waiting_view(waits: Sequence[ForeignWait], sees: Sees) -> dict[str, Any]:
    """Schedules of other namespaces that wait for a removed program and stay as they are: those that the caller may
    view by id, and how many there are besides.
    """
    schedules = {each.schedule for each in waits}
    visible = sorted(str(each) for each in schedules if sees(each.namespace))
    return {"schedules": visible, "others": len(schedules) - len(visible)}
