"""What a person asks and says about PostgreSQL's clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.clock_judge import ClockFact, confirm_clock
from streamsched.domain.errors import ConflictError
from streamsched.domain.limits import add_duration
from streamsched.store.server.clock_judgements import ClockJudgements, ClockState

#: Longest name of a person in a judgement.
_BY = 200


async def confirm(judgements: ClockJudgements, number: int, *, by: str) -> ClockState:
    """Makes PostgreSQL's present time the time of the installation.

    Args:
        number: the judgement that the person has seen.
        by: the person.

    Raises:
        ConflictError: the clock is not in doubt, or was judged again since.
        UnavailableError: PostgreSQL is unavailable.
    """
    state = await judgements.state()
    proposal = confirm_clock(state.record)
    if proposal is None:
        raise ConflictError("PostgreSQL's clock is not in doubt")
    at = add_duration(state.theirs, -state.record.ahead)
    stored = state.record.number == number and await judgements.judge(proposal, theirs=state.theirs, at=at, by=by[:_BY])
    if not stored:
        raise ConflictError("PostgreSQL's clock was judged again meanwhile: look at it again")
    return await judgements.state()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastJudgement:
    """What was judged last, when, and by whom."""

    fact: ClockFact
    at: datetime
    by: Annotated[str, About("launcher-1", of="judged_by")]


_LAST: Final = JsonShape(LastJudgement)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSummary:
    """PostgreSQL's clock, and the time that processes go by."""

    database: Annotated[datetime, About(of="theirs")]
    counted: datetime
    ahead_seconds: Annotated[float, About(31536000.0)]
    doubt: str | None
    number: Annotated[int, About(of="record.number")]
    last: Annotated[LastJudgement | None, About(shape=_LAST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJudgement:
    """The number of the judgement that a person has seen."""

    number: Annotated[int, About(1, least=0)]


CLOCK: Final = JsonShape(ClockSummary, "Clock")
SEEN: Final = JsonShape(SeenJudgement)


def to_json(state: ClockState) -> dict[str, Any]:
    """The clock as JSON."""
    return CLOCK.answer_of(
        state,
        counted=add_duration(state.theirs, -state.record.ahead),
        ahead_seconds=round(state.record.ahead.total_seconds(), 3),
        last=None if state.fact is None else state,
    )
