"""Starts a program manually: a run without a job, counted by every constraint like any other run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from streamsched.domain.names import ProgramRef
from streamsched.ports.clock import Clock
from streamsched.store.runs.run_queries import RunQueries


async def start(
    runs: RunQueries,
    clock: Clock,
    program: ProgramRef,
    arguments: Mapping[str, str],
    *,
    at_most: int | None = None,
    force: bool = False,
    token: str | None = None,
    reason: str = "",
) -> str:
    """Makes a PENDING run, which a launcher starts, and returns its id. The run takes what the program's schedules
    take: slots of groups and pools, and tokens of rates even when a bucket is empty.

    Args:
        at_most: refuse when so many runs of the program are active.
        force: start it beyond `at_most` and beyond the limits of groups and pools.
        token: idempotency key (letters, digits, `-`, `_`); a random one when None.
        reason: who starts it and why; stored in the history.

    Raises:
        NotFoundError: no such program.
        ConflictError: `at_most` or more runs are active, or a group or pool is full.
        QuotaExceededError: the namespace has as many active runs as its quota allows, also with `force`.
    """
    return await runs.start(
        program,
        arguments,
        token=token or secrets.token_hex(4),
        at_most=at_most,
        force=force,
        reason=reason,
        now=clock.now(),
    )
