"""An app with a fork and a join as JSON, and one of its keys, open, in the tables that pages and the API read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from streamsched.codec.events import ancestors as ancestors_codec
from streamsched.codec.events.native import to_plain
from streamsched.codec.json.scalar import loads
from streamsched.codec.records.state import encode_key
from streamsched.domain.events.ancestors import NO_ANCESTORS
from streamsched.domain.events.event import Event, Outcome, ProgramReached
from streamsched.domain.fold.fold import Definition, TriggerState, fold
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.connections import Pool

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = (ProgramRef("default", "shop", name) for name in "abc")
D: Final = ScheduleRef("default", "shop", "d")
FIRST: Final = NO_ANCESTORS.extend_by_job(A, "default.shop.a.1.1")
_JOB: Final = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, ended_at,
    ancestors)
VALUES ($1, $2, 1, 1, $2, 'LAUNCHED', $3, $3, '{}', $3, $4)
"""
_RUN: Final = """
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, ended_at, runner, reason)
VALUES ($1 || '.r1', $1, 1, $2, '{}', '{}', $4, $3, $3, 'host:1:1', $5)
"""


def after(*programs: str, **more: Any) -> dict[str, Any]:
    """After the success of all of these programs."""
    leaves = [{"type": "PROGRAM_STATUS", "programId": each, "programStatuses": ["COMPLETED"]} for each in programs]
    return leaves[0] if len(leaves) == 1 else {"type": "AND", "triggers": leaves, **more}


def shop(joined: dict[str, Any], **whens: dict[str, Any]) -> dict[str, Any]:
    """`a` by an event, `b` and `c` after it, `d` after what is given; others by their names."""
    starts = {"a": {"type": "EVENT", "event": "go"}, "b": after("a"), "c": after("a"), "d": joined, **whens}
    return {
        "programs": {name: {"type": "bash", "command": "true"} for name in starts},
        "schedules": {name: {"program": name, "trigger": when} for name, when in starts.items()},
    }


async def open_key(pool: Pool) -> str:
    """`d` has counted the `c` of a run of `a`, whose `b` failed. Returns the key."""
    for program, state, reason in ((A, "COMPLETED", ""), (B, "FAILED", "exit code 1")):
        before = None if program is A else to_plain(ancestors_codec.to_json(FIRST))
        await pool.execute(_JOB, f"{program}.1.1", str(program), NOW, before)
        await pool.execute(_RUN, f"{program}.1.1", str(program), NOW, state, reason)
    record = (await CatalogReader(pool).schedule(D)).record
    definition = Definition(D, record.generation, True, record.definition.trigger)
    fact = ProgramReached(C, f"{C}.1.1.r1", Outcome.SUCCEEDED, ancestors=FIRST.extend_by_job(C, f"{C}.1.1"))
    ((key, cell),) = fold(TriggerState(definition), Occurred(Event("c", "t", NOW, fact)), at=NOW).cells.items()
    assert cell is not None
    await pool.execute(
        "INSERT INTO open_keys (schedule, key, generation, state, updated_at) VALUES ($1, $2, $3, $4, $5)",
        *(str(D), key, record.generation, loads(encode_key(definition, cell, key)), NOW),
    )
    return key
