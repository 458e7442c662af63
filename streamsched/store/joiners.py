"""Who joined a waiting job goes with it when it is admitted: read then, in portions, in the same transaction.

It may be all that was satisfied in days. A portion is decoded in an instant, so that neither the process nor
PostgreSQL, which ends a transaction that pauses for long, waits for the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from streamsched.codec import launch
from streamsched.domain.docket import Admit, Join, taking_along
from streamsched.domain.job import ReadyJob
from streamsched.domain.sitting import Judged
from streamsched.store.sql import queries

_SQL: Final = queries("docket")
#: So many are decoded in one go: some 30 ms.
PORTION: Final = 500


async def taken_along(connection: Any, judged: Sequence[Judged]) -> Sequence[Judged]:
    """What was ruled, each admission with all that joined its job: before, and in this very docket.

    Raises:
        InvalidError: one of them cannot be read.
    """
    leaving = {job for each in judged for job in _leaving(each)}
    if not leaving:
        return judged
    joined: dict[str, list[ReadyJob]] = {}
    async for row in connection.cursor(_SQL["joiners"], list(leaving), prefetch=PORTION):
        joined.setdefault(row["joined"], []).append(launch.decode(row["ready"]))
    return [_completed(each, joined) for each in judged] if joined else judged


def _leaving(judged: Judged) -> Sequence[str]:
    """Jobs that go on from here and may have been joined: only those that were told to wait."""
    admitted = {ruling.job for ruling in judged.rulings if isinstance(ruling, Admit)}
    if not admitted:
        return ()
    return [
        ruling.job
        for case, ruling in zip(judged.docket.cases, judged.rulings, strict=True)
        if case.held_by is not None
        and (ruling.job in admitted or (isinstance(ruling, Join) and ruling.into in admitted))
    ]


def _completed(judged: Judged, joined: Mapping[str, Sequence[ReadyJob]]) -> Judged:
    program = judged.docket.program
    if program is None:
        return judged
    filed = list(zip(judged.docket.cases, judged.rulings, strict=True))
    along = {ruling.job: list(joined.get(ruling.job, ())) for _, ruling in filed if isinstance(ruling, Admit)}
    for case, ruling in filed:
        if isinstance(ruling, Join) and ruling.into in along:
            along[ruling.into] += (case.ready, *joined.get(ruling.job, ()))
    return replace(
        judged,
        rulings=[
            taking_along(ruling, case, program, along[ruling.job])
            if isinstance(ruling, Admit) and along[ruling.job]
            else ruling
            for case, ruling in filed
        ],
    )
