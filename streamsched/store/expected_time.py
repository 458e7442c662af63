"""What PostgreSQL's clock should say: a parameter of queries that must not act when it says something else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

#: Gives it (UTC); None while it is unknown, because the clock has jumped.
ExpectedTime = Callable[[], datetime | None]

#: What no clock says.
_UNKNOWN: Final = datetime(1, 1, 2, tzinfo=UTC)


def expected_parameter(theirs: ExpectedTime | None) -> datetime | None:
    """The parameter: a query compares it with its clock, and None with nothing."""
    return None if theirs is None else theirs() or _UNKNOWN
