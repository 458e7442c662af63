"""The satisfactions coalesced into a job, read when it is admitted, in the same transaction.

They may be those of several days, so they are read and decoded in batches: neither the event loop nor the transaction,
which PostgreSQL ends when it is idle for long, waits for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from streamsched.codec.records import launch
from streamsched.domain.decisions.decision import Admit, Join, add_coalesced_jobs
from streamsched.domain.decisions.decision_batch import DecidedProgram
from streamsched.domain.jobs.job import ReadyJob
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries


class _CoalescedJob(NamedTuple):
    joined: str
    ready: str


_COALESCED: Final = Select(queries("jobs/decisions")["coalesced"], _CoalescedJob)
#: Rows of one batch; decoding them takes some 30 ms.
PREFETCH: Final = 500


async def with_coalesced_jobs(
    connection: Connection, decided: Sequence[DecidedProgram], coalesced: Collection[str]
) -> Sequence[DecidedProgram]:
    """The decisions, each admission with the satisfactions coalesced into its job, earlier or in this batch.
    `coalesced`: the jobs into which others were coalesced earlier.

    Raises:
        InvalidError: a stored satisfaction cannot be read.
    """
    jobs = {job for each in decided for job in _jobs_with_coalesced(each) if job in coalesced}
    if not jobs:
        return decided
    stored: dict[str, list[ReadyJob]] = {}
    async for row in _COALESCED.rows(connection, list(jobs), prefetch=PREFETCH):
        stored.setdefault(row.joined, []).append(launch.decode(row.ready))
    return [_complete_decisions(each, stored) for each in decided] if stored else decided


def _jobs_with_coalesced(decided: DecidedProgram) -> Sequence[str]:
    """Jobs admitted, or joined to an admitted one."""
    admitted = {decision.job for decision in decided.decisions if isinstance(decision, Admit)}
    if not admitted:
        return ()
    return [
        decision.job
        for decision in decided.decisions
        if decision.job in admitted or (isinstance(decision, Join) and decision.into in admitted)
    ]


def _complete_decisions(decided: DecidedProgram, stored: Mapping[str, Sequence[ReadyJob]]) -> DecidedProgram:
    program = decided.input.program
    if program is None:
        return decided
    pairs = list(zip(decided.input.due_jobs, decided.decisions, strict=True))
    coalesced = {
        decision.job: list(stored.get(decision.job, ())) for _, decision in pairs if isinstance(decision, Admit)
    }
    for due_job, decision in pairs:
        if isinstance(decision, Join) and decision.into in coalesced:
            coalesced[decision.into] += (due_job.ready, *stored.get(decision.job, ()))
    return replace(
        decided,
        decisions=[
            add_coalesced_jobs(decision, due_job, program, coalesced[decision.job])
            if isinstance(decision, Admit) and coalesced[decision.job]
            else decision
            for due_job, decision in pairs
        ],
    )
