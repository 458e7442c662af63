"""Accumulations at rest: shown, exported as lines of JSON, and imported while no worker runs.

An export begins with `{"v": 1, "shards": n}`; then each row of each table is `{"topic", "shard", "key", "value"}`, key
and value in base64; and it ends with `{"rows": n}`, without which it was cut off on its way. Shards' positions are no
part of it: after an import they go on where they stood, so events that came after the export are not counted again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

import orjson

from streamsched.admin.changelog import table
from streamsched.admin.started import Numbers, Started, started
from streamsched.codec import explanation
from streamsched.codec import state as state_codec
from streamsched.codec.scalar import integer, loads, mapping, text
from streamsched.codec.state import SEPARATOR, Heading
from streamsched.domain.errors import ConflictError, DecodeError, NotFoundError
from streamsched.domain.event import schedule_key
from streamsched.domain.explain import explain, explain_cell
from streamsched.domain.home import home
from streamsched.domain.names import ScheduleRef
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.leases import is_shard_lease
from streamsched.ports.probe import DatabaseFacts
from streamsched.ports.topics import APP_ID, CHANGELOGS, RESERVED, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.stream.accumulated import Accumulated

VERSION: Final = 1
#: Records for one commit.
_BATCH: Final = 1000


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


async def restore(broker: Broker, facts: DatabaseFacts, numbers: Numbers, lines: Iterable[bytes]) -> int:
    """Makes the tables of all shards what was exported; returns how many rows were written or removed. A row that is as
    it should be is left alone, so a second try after a failure only does the rest.

    No schedule goes back behind what it has started (`onward`), so that what it starts next is a job of its own.

    Raises:
        ConflictError: a worker holds a shard: stop the workers first.
        DecodeError: a line is no export's, or the installation had another number of shards.
        UnavailableError: the log is away; some tables may be restored, others not.
    """
    held = [lease.name for lease in facts.leases if lease.live and is_shard_lease(lease.name)]
    if held:
        raise ConflictError(f"workers hold {', '.join(held)}; stop them before state is imported")
    shards = await broker.partitions(SIGNALS)
    wanted = _read(lines, shards)
    jobs = await started(broker, numbers)
    written = 0
    for shard in range(shards):
        records: list[Outgoing] = []
        for topic in CHANGELOGS:
            has, want = await table(broker, topic, shard), wanted.get((topic, shard), {})
            want = onward(has, want, jobs) if topic == TRIGGERS_CHANGELOG else want
            records += (Outgoing(topic, shard, key, value) for key, value in want.items() if has.get(key) != value)
            records += (Outgoing(topic, shard, key, None) for key in has if key not in want)
        writer = await broker.writer(f"{APP_ID}-{shard}")  # fences a worker that we do not know of
        try:
            for start in range(0, len(records), _BATCH):
                await writer.commit(records[start : start + _BATCH])
        finally:
            await writer.close()
        written += len(records)
    return written


def onward(has: Mapping[bytes, bytes], want: Mapping[bytes, bytes], jobs: Started) -> Mapping[bytes, bytes]:
    """The rows of a triggers table to import over what it has. A schedule that was changed since the export stays as it
    is; any other goes back to what it had, but its numbers go on from the highest that is known. Pure.
    """
    found, stay = dict(want), set[bytes]()
    for key, value in want.items():
        if SEPARATOR in key or (at := _heading(value)) is None:
            continue
        now = _heading(has[key]) if key in has else None
        number = jobs.get((at.schedule, at.generation), 0)
        if now is not None and now.generation > at.generation:
            stay.add(key)
        elif now is not None and now.generation == at.generation:
            number = max(number, now.sequence)
        found[key] = state_codec.numbered(value, number)
    if not stay:
        return found
    rows = {key: value for key, value in found.items() if key.partition(SEPARATOR)[0] not in stay}
    return rows | {key: value for key, value in has.items() if key.partition(SEPARATOR)[0] in stay}


def _heading(value: bytes) -> Heading | None:
    """None of what its shard cannot read either, and stands in error for."""
    try:
        return state_codec.peek(value)
    except DecodeError:
        return None


def _read(lines: Iterable[bytes], shards: int) -> Mapping[tuple[str, int], dict[bytes, bytes]]:
    """All of it, checked before anything is written."""
    found: dict[tuple[str, int], dict[bytes, bytes]] = {}
    numbered = enumerate(lines, 1)
    head = mapping(loads(next(numbered, (0, b""))[1], "line 1"), "line 1")
    if integer(head.get("v"), "line 1.v") != VERSION:
        raise DecodeError("line 1.v", f"is not version {VERSION}, which this release reads")
    if (exported := integer(head.get("shards"), "line 1.shards")) != shards:
        raise DecodeError("line 1.shards", f"is {exported}, but this installation has {shards}")
    rows: int | None = None
    number = 1
    for number, line in numbered:
        path = f"line {number}"
        if rows is not None:
            raise DecodeError(path, "comes after the end of the export")
        row = mapping(loads(line, path), path)
        if "rows" in row:
            if (rows := integer(row["rows"], path, ".rows")) != number - 2:
                raise DecodeError(
                    f"{path}.rows", f"is {rows}, but {number - 2} rows are here: some were lost on the way"
                )
            continue
        topic, shard = text(row.get("topic"), path, ".topic"), integer(row.get("shard"), path, ".shard")
        if topic not in CHANGELOGS or shard >= shards:
            raise DecodeError(path, f"is of {topic}/{shard}, which is no table of this installation")
        key = _bytes(row.get("key"), f"{path}.key")
        if key.startswith(RESERVED):
            raise DecodeError(f"{path}.key", "is a shard's position, which is no part of an export")
        found.setdefault((topic, shard), {})[key] = _bytes(row.get("value"), f"{path}.value")
    if rows is None:
        raise DecodeError(
            f"line {number + 1}", "is missing: it says how many rows there are, so the export was cut off"
        )
    return found


def _bytes(value: object, path: str) -> bytes:
    try:
        return b64decode(text(value, path), validate=True)
    except ValueError as exc:
        raise DecodeError(path, "is no base64") from exc
