"""Shows accumulations, and exports them as lines of JSON (`admin.restoration` imports them).

An export starts with `{"v": 1, "shards": n}`, then has a line `{"topic", "shard", "key", "value"}` for each table row,
key and value in base64, and ends with `{"rows": n}`; without that line it is incomplete. It does not contain the
shards' positions: an import leaves them unchanged, so events that followed the export are not counted again.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson

from streamsched.admin.changelog import table
from streamsched.codec.events.native import to_plain
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import object_by_name
from streamsched.codec.views import explanation
from streamsched.domain.errors import NotFoundError
from streamsched.domain.events.event import schedule_key
from streamsched.domain.fold.explain import explain, explain_cell
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.log.topics import CHANGELOGS, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker
from streamsched.stream.agents.accumulated import TriggerStates

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownState:
    """The state of a schedule in its shard."""

    schedule: Annotated[str, About("default.flights.weekly")]
    shard: Annotated[int, About(0)]
    generation: int
    enabled: Annotated[bool, About(of="is_enabled")]
    keeping: Annotated[bool, About(of="definition.keeping")]
    draining: Annotated[bool, About(False, of="definition.draining")]
    backlog: Annotated[bool, About(False, of="definition.backlog")]
    when: Annotated[str, About(of="trigger")]
    fired: Annotated[int, About(0, of="sequence")]
    progress: Annotated[Mapping[str, Any], About(schema={"type": "object"})]
    open: Annotated[Mapping[str, Any], About(schema=object_by_name({"type": "object"}, "day=2026-03-01"))]


STATE: Final = JsonShape(ShownState, "ShardState")
_ANYWHERE: Final = JsonShape(ShownState, outside=("shard",))


async def show(broker: Broker, ref: ScheduleRef, affinity: int | None = None) -> dict[str, Any]:
    """The state of a schedule of this affinity, read from the log: definition, counts and open keys.

    Raises:
        NotFoundError: its shard has no state of it.
        UnavailableError: the log is unreachable.
    """
    key = schedule_key(ref, affinity).encode()
    shard = home(key, await broker.partitions(SIGNALS))
    found = state_to_json(TriggerStates(await table(broker, TRIGGERS_CHANGELOG, shard)), key)
    if found is None:
        raise NotFoundError("state of schedule", str(ref))
    return {"shard": shard, **found}


def state_to_json(accumulated: TriggerStates, key: bytes) -> dict[str, Any] | None:
    """The same from a shard's table, by the schedule's record key, as plain JSON; None without a state."""
    state = accumulated.state(key)
    if state is None:
        return None
    cells = accumulated.cells(key) if state.plan.per is not None else {}
    return _ANYWHERE.answer_of(
        state,
        progress=to_plain({**explanation.to_json(explain(state)), **explanation.losses(state)}),
        open={
            name: to_plain({"openedAt": cell.opened_at, **explanation.to_json(explain_cell(state.plan, cell, name))})
            for name, cell in cells.items()
        },
    )


async def export(broker: Broker) -> AsyncIterator[bytes]:
    """The lines of an export. While workers run, the shards' tables are of different moments.

    Raises:
        UnavailableError: the log is unreachable.
    """
    shards = await broker.partitions(SIGNALS)
    yield orjson.dumps({"v": VERSION, "shards": shards})
    rows = 0
    for shard in range(shards):
        for topic in CHANGELOGS:
            for key, value in (await table(broker, topic, shard)).items():
                row = {
                    "topic": topic,
                    "shard": shard,
                    "key": b64encode(key).decode(),
                    "value": b64encode(value).decode(),
                }
                yield orjson.dumps(row)
                rows += 1
    yield orjson.dumps({"rows": rows})
