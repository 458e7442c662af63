"""The next and previous ticks of a program's schedules, one entry for each time trigger.

    {"id": "DEFAULT.<namespace>:<app>:-SNAPSHOT:WORKFLOW:<program>:<schedule>", "time": milliseconds}

The id of a time trigger inside a composite trigger also ends with its expression. Ticks are computed, not stored: the
next tick is the first one after now, the previous tick the last one before now and after the schedule's latest change.
A suspended schedule has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.body import BodyBytes
from streamsched.api.cdap.addresses import AppDep, find_program
from streamsched.api.deps import CatalogDep, ClockDep
from streamsched.api.plain import message
from streamsched.api.problems import status_of
from streamsched.api.rendering import rendered
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.change import time_leaves
from streamsched.codec.cdap.schedule import millis
from streamsched.codec.cdap.trigger import VERSION
from streamsched.codec.json.reading import Fields, below
from streamsched.codec.json.scalar import loads, sequence
from streamsched.domain.errors import StreamschedError
from streamsched.domain.names import AppRef
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.triggers.trigger import Cron, TimeLeaf
from streamsched.ports.catalog import ScheduleRecord

of_app = APIRouter()
of_namespace = APIRouter()

#: The tick of a time trigger relative to an instant; None when there is none.
_Tick = Callable[[ScheduleRecord, TimeLeaf, datetime], datetime | None]


def _next(record: ScheduleRecord, leaf: TimeLeaf, now: datetime) -> datetime | None:
    return next_fire(leaf, now, created_at=record.created_at)


def _previous(record: ScheduleRecord, leaf: TimeLeaf, now: datetime) -> datetime | None:
    tick = previous_fire(leaf, now, created_at=record.created_at)
    return tick if tick is not None and tick > record.updated_at else None


@of_app.get("/{category}/{program}/nextruntime", summary="Next ticks of a program")
async def next_of_program(app: AppDep, category: str, program: str, catalog: CatalogDep, clock: ClockDep) -> Response:
    """The next tick of each time trigger of the program's enabled schedules: `[{"id", "time"}, …]`. `time` is in
    milliseconds since the epoch.
    """
    return rendered(await _runtimes(catalog, app, category, program, tick=_next, now=clock.now()))


@of_app.get("/{category}/{program}/previousruntime", summary="Previous ticks of a program")
async def last_of_program(app: AppDep, category: str, program: str, catalog: CatalogDep, clock: ClockDep) -> Response:
    """The previous tick of each time trigger of the program's enabled schedules, in the format of `nextruntime`. Ticks
    before the schedule's latest change are omitted.
    """
    return rendered(await _runtimes(catalog, app, category, program, tick=_previous, now=clock.now()))


@of_namespace.post("/nextruntime", summary="Next ticks of several programs")
async def next_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, clock: ClockDep) -> Response:
    """The body is `[{"appId", "programType", "programId"}, …]`. The response repeats each element with its own
    `statusCode` and either `schedules` or `error`.
    """
    return rendered(await _batch(catalog, namespace, body, tick=_next, now=clock.now()))


@of_namespace.post("/previousruntime", summary="Previous ticks of several programs")
async def last_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, clock: ClockDep) -> Response:
    """As `POST nextruntime`, with the previous ticks."""
    return rendered(await _batch(catalog, namespace, body, tick=_previous, now=clock.now()))


async def _batch(catalog: Catalog, namespace: str, body: bytes, *, tick: _Tick, now: datetime) -> list[dict[str, Any]]:
    return [
        {
            **(each if isinstance(each, dict) else {}),
            **await _element(catalog, namespace, each, below("$", index), tick=tick, now=now),
        }
        for index, each in enumerate(sequence(loads(body), "$"))
    ]


async def _element(
    catalog: Catalog, namespace: str, element: object, path: str, *, tick: _Tick, now: datetime
) -> dict[str, Any]:
    """The result of one element. An error affects this element only."""
    try:
        fields = Fields(element, path)
        app = AppRef(namespace, fields.text("appId"))
        category = _CATEGORIES.get(fields.text("programType").upper(), fields.text("programType"))
        found = await _runtimes(catalog, app, category, fields.text("programId"), tick=tick, now=now)
    except StreamschedError as exc:
        return {"statusCode": int(status_of(exc)), "error": message(exc)}
    return {"statusCode": int(HTTPStatus.OK), "schedules": found}


async def _runtimes(
    catalog: Catalog, app: AppRef, category: str, program: str, *, tick: _Tick, now: datetime
) -> list[dict[str, Any]]:
    ref = (await find_program(catalog, app, category, program)).ref
    records = [status.record for status in await catalog.list(app=app)]
    return [
        entry
        for record in records
        if record.enabled and record.definition.program == ref
        for entry in _entries(record, tick, now)
    ]


def _entries(record: ScheduleRecord, tick: _Tick, now: datetime) -> Iterator[dict[str, Any]]:
    ref, program = record.definition.ref, record.definition.program
    name = f"DEFAULT.{ref.namespace}:{ref.app}:{VERSION}:WORKFLOW:{program.name}:{ref.name}"
    for leaf_id, leaf in time_leaves(record.definition.trigger).items():
        at = tick(record, leaf, now)
        if at is not None:
            alone = record.definition.trigger == leaf
            suffix = leaf.expression if isinstance(leaf, Cron) else leaf_id
            yield {"id": name if alone else f"{name}:{suffix}", "time": millis(at)}


#: `programType` in a body and the program category of a path.
_CATEGORIES: Final = {
    "FLOW": "flows",
    "MAPREDUCE": "mapreduce",
    "SERVICE": "services",
    "SPARK": "spark",
    "WEBAPP": "webapp",
    "WORKER": "workers",
    "WORKFLOW": "workflows",
}
