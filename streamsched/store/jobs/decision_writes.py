"""Stores decisions in the transaction that read their input, under its locks; one statement for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

import orjson

from streamsched.codec.records import launch
from streamsched.codec.records.descent import ancestors_of_job
from streamsched.codec.views import constraint_verdict
from streamsched.domain.decisions.decision import Admit, Decision, End, Join, Wait
from streamsched.domain.decisions.decision_batch import DecidedProgram
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import ConflictError
from streamsched.domain.jobs.job import JOB_STATES, JobFact, JobState
from streamsched.domain.limits import add_duration
from streamsched.domain.schedules.schedule import HttpJob, Program
from streamsched.ports.runs import Assignment
from streamsched.store.catalog.history import copy
from streamsched.store.connections import Connection
from streamsched.store.limits import clusters, groups, lanes, pools, process_room, rates
from streamsched.store.runs import deadlines
from streamsched.store.sql import fetch_value, queries

_SQL: Final = queries("jobs/decision_writes")
_WAITING: Final = JobState.PENDING_CONSTRAINT

#: A history line: subject kind, subject, action, reason.
_Line = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class InlineRoom:
    """An `InlineRunner` for which a decision claims admitted runs at once.

    Attributes:
        runner: its `RunnerId` as text.
        requests: how many runs that send a request it accepts now.
        publications: how many runs that publish an event or make a task it accepts now.
        fits: whether it executes a program.
    """

    runner: str
    requests: int
    publications: int
    fits: Callable[[Program], bool]


async def write_decisions(
    connection: Connection,
    decided: Sequence[DecidedProgram],
    *,
    before: Resources,
    now: datetime,
    inline: InlineRoom | None = None,
) -> Sequence[Assignment]:
    """Applies the decisions and writes their history; `before`: the resources before any of them. Returns the runs
    that are claimed for the inline runner.

    Raises:
        ConflictError: a job changed its state meanwhile; the transaction must be rolled back.
    """
    decisions = [decision for each in decided for decision in each.decisions]
    due_jobs = [job for each in decided for job in each.input.due_jobs]
    claimed = list(_claims(decided, inline))
    history: list[_Line] = [line for decision in decisions for line in _history(decision)]
    for each in claimed:
        history += [
            ("run", each.run, "run.claimed", f"by runner {_runner(inline)}"),
            ("job", each.job or "", "job.launched", f"run {each.run}"),
        ]
    if waited := [job.job for job in due_jobs if job.held_by is not None]:
        await connection.execute(_SQL["leave"], waited)
    await _admit(connection, decided, {each.run: each for each in claimed}, _runner(inline), now)
    await _wait(
        connection, [decision for decision in decisions if isinstance(decision, Wait) and not decision.failed], now
    )
    joins = [decision for decision in decisions if isinstance(decision, Join)]
    if joins:
        state = JOB_STATES.advance(_WAITING, JobFact.JOINED)
        columns = [j.job for j in joins], [j.into for j in joins], [j.reason for j in joins]
        _check_moved(joins, len(await connection.fetch(_SQL["join"], state, _WAITING, now, *columns)))
    ends = [decision for decision in decisions if isinstance(decision, End)]
    if ends:
        states = [JOB_STATES.advance(_WAITING, end.fact) for end in ends]
        columns = [e.job for e in ends], states, [e.reason for e in ends]
        _check_moved(ends, len(await connection.fetch(_SQL["end"], _WAITING, now, *columns)))
    await groups.settle(connection, due_jobs, before.groups, decisions)
    await rates.settle(connection, before.buckets, decisions, now)
    await pools.settle(connection, due_jobs, before.pool_queues, decisions)
    await process_room.settle(connection, decisions)
    for each in decided:
        await clusters.settle(connection, each.input, each.decisions)
        await lanes.settle(connection, each.input, each.decisions)
        await deadlines.watch_jobs(connection, each.input, each.decisions, now)
    for each in claimed:
        if each.schedule is not None and each.schedule.deadlines:
            await deadlines.watch_run(connection, each.schedule, each.job, each.run, now=now)
    await copy(connection, ((now, *line) for line in history))
    return claimed


async def _admit(
    connection: Connection,
    decided: Sequence[DecidedProgram],
    claimed: Mapping[str, Assignment],
    runner: str | None,
    now: datetime,
) -> None:
    inline: list[tuple[object, ...]] = []
    pending: list[tuple[object, ...]] = []
    inline_slots: list[tuple[object, ...]] = []
    pending_slots: list[tuple[object, ...]] = []
    coalesced: list[tuple[object, ...]] = []
    for each in decided:
        for job, admit in zip(each.input.due_jobs, each.decisions, strict=True):
            if isinstance(admit, Admit):
                row = admit.job, admit.run, admit.reason, orjson.dumps(admit.arguments, default=dict).decode()
                rows, slots = (inline, inline_slots) if admit.run in claimed else (pending, pending_slots)
                rows.append((*row, job.pool, each.input.queue_position(job).at))
                slots += [(name, admit.run, weight) for name, weight in admit.slots]
                if job.ready is not admit.ready:
                    coalesced.append((admit.job, launch.encode(admit.ready).decode(), ancestors_of_job(admit.ready)))
    if coalesced:
        await connection.execute(_SQL["joined_by"], *_columns(coalesced))
    for claimed_by, rows, slots in ((runner, inline, inline_slots), (None, pending, pending_slots)):
        if rows:
            columns = *_columns(rows), *(_columns(slots) or ([], [], []))
            _check_moved(rows, await fetch_value(connection, _SQL["admit"], int, now, claimed_by, *columns))
    run_deadlines = [(each.run, _deadline(each, now)) for each in claimed.values()]
    if run_deadlines := [row for row in run_deadlines if row[1] is not None]:
        await connection.execute(_SQL["bound"], *_columns(run_deadlines))


async def _wait(connection: Connection, waits: Sequence[Wait], now: datetime) -> None:
    if not waits:
        return
    texts = [orjson.dumps([constraint_verdict.to_json(each) for each in wait.verdicts]).decode() for wait in waits]
    columns = (
        [w.job for w in waits],
        [w.until for w in waits],
        texts,
        [w.reason for w in waits],
        [w.skip_on_run_end for w in waits],
    )
    _check_moved(waits, len(await connection.fetch(_SQL["wait"], now, *columns)))
    stops = [(run, f"job {wait.job} takes its place", wait.kill) for wait in waits for run in wait.stops]
    if stops:
        await connection.execute(_SQL["stop_runs"], now, *_columns(stops))


def _claims(decided: Sequence[DecidedProgram], inline: InlineRoom | None) -> Iterator[Assignment]:
    """The admitted runs that the inline runner starts at once, as many as it has room for."""
    requests, publications = (0, 0) if inline is None else (inline.requests, inline.publications)
    for each in decided:
        program = each.input.program
        if inline is None or program is None or not inline.fits(program):
            continue
        publishes = not isinstance(program.executable, HttpJob)
        for job, decision in zip(each.input.due_jobs, each.decisions, strict=True):
            if (publications if publishes else requests) and isinstance(decision, Admit):
                publications -= publishes
                requests -= not publishes
                yield Assignment(
                    decision.run, 1, program, decision.arguments, decision.job, decision.ready, job.schedule
                )


def _deadline(run: Assignment, now: datetime) -> datetime | None:
    longest = None if run.schedule is None else run.schedule.max_duration
    return None if longest is None else add_duration(now, longest)


def _runner(inline: InlineRoom | None) -> str | None:
    return None if inline is None else inline.runner


def _check_moved(decisions: Sequence[object], moved: int) -> None:
    if moved != len(decisions):
        raise ConflictError("a job changed its state while it was being decided")


def _history(decision: Decision) -> Iterator[_Line]:
    match decision:
        case Admit(job=job, run=run, reason=reason):
            yield "job", job, "job.admitted", reason
            yield "run", run, "run.created", f"for job {job}"
        case Wait(job=job, reason=reason, changed=changed, failed=failed):
            if changed and not failed:
                yield "job", job, "job.waits", reason
        case Join(job=job, into=into, reason=reason):
            yield "job", job, "job.coalesced", reason
            yield "job", into, "job.joined", f"by {job}"
        case End(job=job, fact=fact, reason=reason):
            yield "job", job, f"job.{JOB_STATES.advance(_WAITING, fact).lower()}", reason
        case _:
            assert_never(decision)


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
