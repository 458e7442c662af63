"""Accumulations at rest: shown, and exported as lines of JSON (`admin.restoration` imports them).

An export begins with `{"v": 1, "shards": n}`; then each row of each table is `{"topic", "shard", "key", "value"}`, key
and value in base64; and it ends with `{"rows": n}`, without which it was cut off on its way. Shards' positions are no
part of it: after an import they go on where they stood, so events that came after the export are not counted again.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from streamsched.admin.changelog import table
from streamsched.codec import explanation
from streamsched.domain.errors import NotFoundError
from streamsched.domain.event import schedule_key
from streamsched.domain.explain import explain, explain_cell
from streamsched.domain.home import home
from streamsched.domain.names import ScheduleRef
from streamsched.ports.broker import Broker
from streamsched.ports.topics import CHANGELOGS, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.stream.accumulated import Accumulated

VERSION: Final = 1


async def show(broker: Broker, ref: ScheduleRef) -> dict[str, Any]:
    """What its shard knows of a schedule, from the log itself: definition, counts, and the keys that are open.

    Raises:
        NotFoundError: its shard has no state of it.
        UnavailableError: the log is away.
    """
    key = schedule_key(ref).encode()
    shard = home(key, await broker.partitions(SIGNALS))
    found = shown(Accumulated(await table(broker, TRIGGERS_CHANGELOG, shard)), key)
    if found is None:
        raise NotFoundError("state of schedule", str(ref))
    return {"schedule": found.pop("schedule"), "shard": shard, **found}


def shown(accumulated: Accumulated, key: bytes) -> dict[str, Any] | None:
    """The same from a shard's table, by the schedule's record key; None when there is nothing."""
    state = accumulated.state(key)
    if state is None:
        return None
    definition = state.definition
    cells = accumulated.cells(key) if state.plan.per is not None else {}
    return {
        "schedule": str(state.schedule),
        "generation": state.generation,
        "enabled": state.enabled,
        "keeping": definition.keeping,
        "when": str(state.trigger),
        "fired": state.sequence,
        "progress": explanation.to_json(explain(state)),
        "open": {name: explanation.to_json(explain_cell(state.plan, cell, name)) for name, cell in cells.items()},
    }


async def export(broker: Broker) -> AsyncIterator[bytes]:
    """The tables of all shards, line by line. While workers run, each shard's is of its own moment.

    Raises:
        UnavailableError: the log is away.
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
