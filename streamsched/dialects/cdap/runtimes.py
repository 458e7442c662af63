"""The next and previous ticks of a program's schedules, one entry for each time trigger.

    {"id": "DEFAULT.<namespace>:<app>:-SNAPSHOT:WORKFLOW:<program>:<schedule>", "time": milliseconds}

The id of a time trigger inside a composite trigger also ends with its expression. Ticks are computed, not stored: the
next tick is the first one after now, the previous tick the last one before now and after the schedule's latest change.
A suspended schedule has neither.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from streamsched.api.body import BodyBytes
from streamsched.api.bounds.request_limits import MOST_TICKING, PROGRAMS
from streamsched.api.deps import CatalogDep, ClockDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.change import time_leaves
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.addresses import (
    AppDep,
    ListedProgram,
    answer_each,
    named_programs,
    program_named,
    read_programs,
)
from streamsched.dialects.cdap.codec.schedule import millis
from streamsched.dialects.cdap.codec.trigger import VERSION
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.triggers.trigger import Cron, TimeLeaf

of_app = Routes("/v3/namespaces/{namespace}/apps/{app}", "CDAP", CDAP)
of_namespace = Routes("/v3/namespaces/{namespace}", "CDAP", CDAP)

#: Schedules whose ticks are computed before other requests get their turn.
_AT_ONCE: Final = 100
#: The tick of a time trigger relative to an instant; None when there is none.
_Tick = Callable[[ScheduleRecord, TimeLeaf, datetime], datetime | None]


def _next(record: ScheduleRecord, leaf: TimeLeaf, now: datetime) -> datetime | None:
    return next_fire(leaf, now, created_at=record.created_at)


def _previous(record: ScheduleRecord, leaf: TimeLeaf, now: datetime) -> datetime | None:
    tick = previous_fire(leaf, now, created_at=record.created_at)
    return tick if tick is not None and tick > record.updated_at else None


@of_app.get(
    "/{category}/{program}/nextruntime",
    "Next ticks of a program",
    may=VIEW,
    answers=schemas.TICKS,
    schedules=MOST_TICKING,
)
async def next_of_program(app: AppDep, category: str, program: str, catalog: CatalogDep, clock: ClockDep) -> Response:
    """The next tick of each time trigger of the program's enabled schedules: `[{"id", "time"}, …]`. `time` is in
    milliseconds since the epoch. 413 when it has more than 20,000 enabled schedules.
    """
    return await _of_program(catalog, program_named(app, category, program), tick=_next, now=clock.now())


@of_app.get(
    "/{category}/{program}/previousruntime",
    "Previous ticks of a program",
    may=VIEW,
    answers=schemas.TICKS,
    schedules=MOST_TICKING,
)
async def last_of_program(app: AppDep, category: str, program: str, catalog: CatalogDep, clock: ClockDep) -> Response:
    """The previous tick of each time trigger of the program's enabled schedules, in the format of `nextruntime`. Ticks
    before the schedule's latest change are omitted.
    """
    return await _of_program(catalog, program_named(app, category, program), tick=_previous, now=clock.now())


@of_namespace.post(
    "/nextruntime",
    "Next ticks of several programs",
    may=VIEW,
    body=schemas.PROGRAMS,
    answers=schemas.TICKS_OF_PROGRAMS,
    limit=PROGRAMS,
)
async def next_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, clock: ClockDep) -> Response:
    """The body is `[{"appId", "programType", "programId"}, …]`, at most 1000. The response repeats these members of
    each with its own `statusCode` and either `schedules` or `error`. 413 when they are more, or have more than 20,000
    enabled schedules.
    """
    return json_response(await _batch(catalog, namespace, body, tick=_next, now=clock.now()))


@of_namespace.post(
    "/previousruntime",
    "Previous ticks of several programs",
    may=VIEW,
    body=schemas.PROGRAMS,
    answers=schemas.TICKS_OF_PROGRAMS,
    limit=PROGRAMS,
)
async def last_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, clock: ClockDep) -> Response:
    """As `POST nextruntime`, with the previous ticks."""
    return json_response(await _batch(catalog, namespace, body, tick=_previous, now=clock.now()))


async def _of_program(catalog: Catalog, ref: ProgramRef, *, tick: _Tick, now: datetime) -> Response:
    """Raises:
    HTTPException: 413, it has too many schedules.
    """
    known = await catalog.reader.list_enabled([ref], limit=MOST_TICKING + 1)
    if len(known.get(ref, ())) > MOST_TICKING:
        raise HTTPException(413, f"this program has more than {MOST_TICKING:,} enabled schedules")
    found = await _ticks(ref, known, tick=tick, now=now)
    return await asyncio.to_thread(json_response, found)


async def _batch(catalog: Catalog, namespace: str, body: bytes, *, tick: _Tick, now: datetime) -> list[dict[str, Any]]:
    """An error affects its element only.

    Raises:
        HTTPException: 413, too many programs, or too many schedules of these.
    """
    asked = await read_programs(namespace, body)
    counts = Counter(named_programs(asked))
    known = await catalog.reader.list_enabled(counts, limit=MOST_TICKING + 1)
    if sum(len(known.get(ref, ())) * count for ref, count in counts.items()) > MOST_TICKING:
        raise HTTPException(413, f"these programs have more than {MOST_TICKING:,} schedules; ask for fewer")

    async def answer(each: ListedProgram) -> list[dict[str, Any]]:
        return [each.answer(schedules=await _ticks(each.program, known, tick=tick, now=now))]

    return await answer_each(asked, answer)


async def _ticks(
    ref: ProgramRef, known: Mapping[ProgramRef, Sequence[ScheduleRecord]], *, tick: _Tick, now: datetime
) -> list[dict[str, Any]]:
    """Raises:
    NotFoundError: there is no such program.
    """
    if ref not in known:
        raise NotFoundError("program", str(ref))
    found: list[dict[str, Any]] = []
    for index, record in enumerate(known[ref]):
        found += _entries(record, tick, now)
        if index % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
    return found


def _entries(record: ScheduleRecord, tick: _Tick, now: datetime) -> Iterator[dict[str, Any]]:
    ref, program = record.definition.ref, record.definition.program
    name = f"DEFAULT.{ref.namespace}:{ref.app}:{VERSION}:WORKFLOW:{program.name}:{ref.name}"
    for leaf_id, leaf in time_leaves(record.definition.trigger).items():
        at = tick(record, leaf, now)
        if at is not None:
            alone = record.definition.trigger == leaf
            suffix = leaf.expression if isinstance(leaf, Cron) else leaf_id
            yield {"id": name if alone else f"{name}:{suffix}", "time": millis(at)}
