"""Verdicts of constraints as JSON: `{"kind", "why", "at"?, "what"?}`, as jobs keep them and people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never

from streamsched.domain.admission import Satisfied, Unsatisfiable, Verdict, WaitFor, WaitUntil


def from_json(said: Mapping[str, Any]) -> Verdict:
    """Reads what `to_json` wrote, as jobs keep it."""
    why = said.get("why", "")
    match said.get("kind"):
        case "satisfied":
            return Satisfied(why)
        case "wait_until":
            return WaitUntil(datetime.fromisoformat(said["at"]), why)
        case "wait_for":
            return WaitFor(tuple(said["what"]), why)
        case _:
            return Unsatisfiable(why)


def to_json(verdict: Verdict) -> dict[str, Any]:
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
