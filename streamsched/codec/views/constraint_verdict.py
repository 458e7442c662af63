"""Verdicts of constraints as JSON: `{"kind", "why", "at"?, "what"?}`, as stored with jobs and shown to users."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never

from streamsched.domain.decisions.admission import ConstraintVerdict, Satisfied, Unsatisfiable, WaitFor, WaitUntil


def from_json(obj: Mapping[str, Any]) -> ConstraintVerdict:
    """Decodes a stored verdict."""
    why = obj.get("why", "")
    match obj.get("kind"):
        case "satisfied":
            return Satisfied(why)
        case "wait_until":
            return WaitUntil(datetime.fromisoformat(obj["at"]), why)
        case "wait_for":
            return WaitFor(tuple(obj["what"]), why)
        case _:
            return Unsatisfiable(why)


def to_json(verdict: ConstraintVerdict) -> dict[str, Any]:
    """`kind` is satisfied, wait_until (with `at`, ISO 8601), wait_for (with `what`) or unsatisfiable."""
    match verdict:
        case Satisfied(why=why):
            return {"kind": "satisfied", "why": why}
        case WaitUntil(at=at, why=why):
            return {"kind": "wait_until", "why": why, "at": at.isoformat()}
        case WaitFor(what=what, why=why):
            return {"kind": "wait_for", "why": why, "what": list(what)}
        case Unsatisfiable(why=why):
            return {"kind": "unsatisfiable", "why": why}
        case _:
            assert_never(verdict)
