"""Expectations with what is known of them, and what was missing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.schedules.expectation import expectation_to_json
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import array, choice, ref
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.names import ExpectationRef

_REASON: Final = "default.flights was to be there by 08:00 UTC every day, 2026-03-01 08:00:00Z: no commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A due time at which something was not there.

    Attributes:
        announced: false when a later due time had passed too before it was judged.
        open: whether it may still come.
    """

    due_at: datetime
    key: Annotated[str | None, About(blank=True)]
    reason: Annotated[str, About(_REASON)]
    found_at: datetime
    announced: bool
    open: bool
    came_at: datetime | None
    late_seconds: Annotated[float | None, About(7800.0)]


MISS: Final = JsonShape(Miss, "ExpectationMiss", named=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationState:
    """An expectation.

    Attributes:
        definition: as JSON.
        key: of the partition or key that must be there at `due_at`.
        usual: by when it usually is there.
        stopped: why it is not judged any more.
    """

    id: Annotated[ExpectationRef, About(of="expectation.ref")]
    state: Annotated[str, About(schema=choice(("met", "missing", "learning", "stopped")))]
    when: Annotated[str, About("by 08:00 Europe/Berlin every day", of="expectation.due_text")]
    definition: Annotated[
        Expectation, About(of="expectation", shape=ByHand(keep_json, expectation_to_json, ref("Expectation")))
    ]
    due_at: Annotated[datetime | None, About(of="watched.due.at")]
    key: Annotated[str | None, About(of="watched.expected_next.key", blank=True)]
    usual: Annotated[str | None, About(blank=True)]
    seen_at: datetime | None
    open_misses: Annotated[int, About(0)]
    last_miss: Annotated[Miss | None, About(shape=MISS)]
    stopped: Annotated[str | None, About(blank=True)]
    created_at: datetime
    changed_at: datetime


EXPECTATION: Final = JsonShape(ExpectationState, "StoredExpectation")
EXPECTATIONS: Final = EXPECTATION.page("expectations", "ExpectationPage")
EXPLAINED_EXPECTATION: Final = EXPECTATION.with_members(
    "ExplainedExpectation", misses=array(MISS.kind.answer, maxItems=100)
)
