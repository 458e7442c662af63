"""Starting a program by hand: a run without a job, counted by every constraint like any other."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from streamsched.domain.names import ProgramRef
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Runs


async def start(
    runs: Runs,
    clock: Clock,
    program: ProgramRef,
    arguments: Mapping[str, str],
    *,
    at_most: int | None = None,
    force: bool = False,
    token: str | None = None,
) -> str:
    """Makes a PENDING run and returns its id; a launcher gives it a runner within a moment. It takes what the
    program's schedules take: slots of groups, places of pools, tokens of rates (there or not).

    Args:
        at_most: refuse when so many runs of the program are active already.
        force: start it beyond `at_most` and beyond the limits of groups and pools.
        token: makes a repeat find the first (letters, digits, `-`, `_`); a new one when None.

    Raises:
        NotFoundError: no such program.
        ConflictError: `at_most` or more runs are active, or a group or pool has no room.
    """
    return await runs.start(
        program, arguments, token=token or secrets.token_hex(4), at_most=at_most, force=force, now=clock.now()
    )
