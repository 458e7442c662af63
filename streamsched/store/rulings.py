"""What is ruled on dockets, stored: in the transaction that read them, under their locks, set by set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, assert_never

import orjson

from streamsched.codec import launch, verdict
from streamsched.domain.docket import Admit, End, Join, Ruling, Wait
from streamsched.domain.errors import ConflictError
from streamsched.domain.job import JobFact, JobState, advance
from streamsched.domain.sitting import Judged, Shared
from streamsched.ports.jobs import Inside
from streamsched.ports.runs import Assignment
from streamsched.store import clusters, deadlines, decisions, groups, lines, meters
from streamsched.store.sql import queries

_SQL: Final = queries("rulings")
_WAITING: Final = JobState.PENDING_CONSTRAINT

_Line = tuple[str, str, str, str]


async def store(
    connection: Any,
    judged: Sequence[Judged],
    *,
    before: Shared,
    now: datetime,
    inside: Inside | None = None,
) -> Sequence[Assignment]:
    """Applies the rulings and writes their history; `before` is what they take of as it stood. Returns the runs that
    begin here.

    Raises:
        ConflictError: a job changed its state meanwhile; the transaction must be rolled back.
    """
    rulings = [ruling for each in judged for ruling in each.rulings]
    cases = [case for each in judged for case in each.docket.cases]
    begun = list(_beginning(judged, inside))
    told: list[_Line] = [line for ruling in rulings for line in _told(ruling)]
    for each in begun:
        told += [
            ("run", each.run, "run.claimed", f"by runner {_name(inside)}"),
            ("job", each.job or "", "job.launched", f"run {each.run}"),
        ]
    await _admit(connection, judged, {each.run: each for each in begun}, _name(inside), now)
    await _wait(connection, [ruling for ruling in rulings if isinstance(ruling, Wait)], now)
    joins = [ruling for ruling in rulings if isinstance(ruling, Join)]
    if joins:
        state = advance(_WAITING, JobFact.JOINED)
        columns = [j.job for j in joins], [j.into for j in joins], [j.reason for j in joins]
        _all_moved(joins, len(await connection.fetch(_SQL["join"], state, _WAITING, now, *columns)))
    ends = [ruling for ruling in rulings if isinstance(ruling, End)]
    if ends:
        states = [advance(_WAITING, end.fact) for end in ends]
        columns = [e.job for e in ends], states, [e.reason for e in ends]
        _all_moved(ends, len(await connection.fetch(_SQL["end"], _WAITING, now, *columns)))
    await groups.settle(connection, cases, before.groups, rulings)
    await meters.settle(connection, before.meters, rulings, now)
    await lines.settle(connection, cases, before.lines, rulings)
    for each in judged:
        await clusters.settle(connection, each.docket, each.rulings)
        await deadlines.watch_jobs(connection, each.docket, each.rulings, now)
    for each in begun:
        if each.schedule is not None and each.schedule.deadlines:
            await deadlines.watch_run(connection, each.schedule, each.job, each.run, now=now)
    await decisions.copy(connection, ((now, *line) for line in told))
    return begun


async def _admit(
    connection: Any,
    judged: Sequence[Judged],
    begun: Mapping[str, Assignment],
    runner: str | None,
    now: datetime,
) -> None:
    here: list[tuple[object, ...]] = []
    elsewhere: list[tuple[object, ...]] = []
    joined: list[tuple[object, ...]] = []
    for each in judged:
        alone = {case.job: case.ready for case in each.docket.cases}
        for admit in each.rulings:
            if isinstance(admit, Admit):
                row = admit.job, admit.run, admit.reason, orjson.dumps(admit.arguments, default=dict).decode()
                (here if admit.run in begun else elsewhere).append(row)
                if alone.get(admit.job) is not admit.ready:
                    joined.append((admit.job, launch.encode(admit.ready).decode()))
    if joined:
        await connection.execute(_SQL["joined_by"], *_columns(joined))
    for by, rows in ((runner, here), (None, elsewhere)):
        if rows:
            _all_moved(rows, await connection.fetchval(_SQL["admit"], now, by, *_columns(rows)))
    bound = [(each.run, _deadline(each, now)) for each in begun.values()]
    if bound := [row for row in bound if row[1] is not None]:
        await connection.execute(_SQL["bound"], *_columns(bound))


async def _wait(connection: Any, waits: Sequence[Wait], now: datetime) -> None:
    if not waits:
        return
    texts = [orjson.dumps([verdict.to_json(each) for each in wait.verdicts]).decode() for wait in waits]
    columns = (
        [w.job for w in waits],
        [w.until for w in waits],
        texts,
        [w.reason for w in waits],
        [w.spared for w in waits],
    )
    _all_moved(waits, len(await connection.fetch(_SQL["wait"], now, *columns)))
    stops = [(run, f"job {wait.job} takes its place", wait.kill) for wait in waits for run in wait.stops]
    if stops:
        await connection.execute(_SQL["stop_runs"], now, *_columns(stops))


def _beginning(judged: Sequence[Judged], inside: Inside | None) -> Iterator[Assignment]:
    """The admitted runs that begin at once, as many as there is room for."""
    room = 0 if inside is None else inside.room
    for each in judged:
        program = each.docket.program
        if inside is None or program is None or not inside.fits(program):
            continue
        for case, ruling in zip(each.docket.cases, each.rulings, strict=True):
            if room and isinstance(ruling, Admit):
                room -= 1
                yield Assignment(ruling.run, 1, program, ruling.arguments, ruling.job, ruling.ready, case.schedule)


def _deadline(begun: Assignment, now: datetime) -> datetime | None:
    longest = None if begun.schedule is None else begun.schedule.max_duration
    return None if longest is None else now + longest


def _name(inside: Inside | None) -> str | None:
    return None if inside is None else inside.runner


def _all_moved(rulings: Sequence[object], moved: int) -> None:
    if moved != len(rulings):
        raise ConflictError("a job changed its state while it was being decided")  # rolls everything back


def _told(ruling: Ruling) -> Iterator[_Line]:
    """The lines of history that a ruling leaves."""
    match ruling:
        case Admit(job=job, run=run, reason=reason):
            yield "job", job, "job.admitted", reason
            yield "run", run, "run.created", f"for job {job}"
        case Wait(job=job, reason=reason, news=news):
            if news:
                yield "job", job, "job.waits", reason
        case Join(job=job, into=into, reason=reason):
            yield "job", job, "job.coalesced", reason
            yield "job", into, "job.joined", f"by {job}"
        case End(job=job, fact=fact, reason=reason):
            yield "job", job, f"job.{advance(_WAITING, fact).lower()}", reason
        case _:
            assert_never(ruling)


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
