"""What a person asks and says about PostgreSQL's clock."""

from __future__ import annotations

from typing import Any

from streamsched.domain.clock_judge import confirm_clock
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


def to_json(state: ClockState) -> dict[str, Any]:
    """The clock as JSON."""
    return {
        "database": state.theirs,
        "counted": add_duration(state.theirs, -state.record.ahead),
        "aheadSeconds": round(state.record.ahead.total_seconds(), 3),
        "doubt": state.doubt,
        "number": state.record.number,
        "last": None if state.fact is None else {"fact": state.fact.value, "at": state.at, "by": state.judged_by},
    }
