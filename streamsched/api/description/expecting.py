"""Schemas of expectations in answers."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import MAYBE_TEXT, WHEN, paged
from streamsched.codec.schema.shapes import (
    Definitions,
    answer,
    any_text,
    boolean,
    choice,
    extended,
    instant,
    listed,
    nullable,
    number,
    ref,
    whole,
)

_MISS: Final = answer(
    {
        "dueAt": instant(),
        "key": MAYBE_TEXT,
        "reason": any_text("default.flights was to be there by 08:00 UTC every day, 2026-03-01 08:00:00Z: no commit"),
        "foundAt": instant(),
        "announced": boolean(),
        "open": boolean(),
        "cameAt": WHEN,
        "lateSeconds": nullable(number(7800.0)),
    }
)
_EXPECTATION: Final = answer(
    {
        "id": any_text("default.shop.flights"),
        "state": choice(("met", "missing", "learning", "stopped")),
        "when": any_text("by 08:00 Europe/Berlin every day"),
        "definition": ref("Expectation"),
        "dueAt": WHEN,
        "key": MAYBE_TEXT,
        "usual": MAYBE_TEXT,
        "seenAt": WHEN,
        "openMisses": whole(0),
        "lastMiss": nullable(ref("ExpectationMiss")),
        "stopped": MAYBE_TEXT,
        "createdAt": instant(),
        "changedAt": instant(),
    }
)

EXPECTING: Final[Definitions] = {
    "ExpectationMiss": _MISS,
    "StoredExpectation": _EXPECTATION,
    "ExplainedExpectation": extended(_EXPECTATION, answer({"misses": listed(ref("ExpectationMiss"), maxItems=100)})),
    "ExpectationPage": paged("expectations", ref("StoredExpectation")),
}
