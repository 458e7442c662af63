"""Schemas of bodies and answers about limits, tasks, tokens, the audit and the installation."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import MAYBE_TEXT, REASON, SCHEDULE
from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    anything,
    array,
    boolean,
    choice,
    duration,
    instant,
    integer,
    nullable,
    number,
    object_by_name,
    one_of,
    page,
    record,
    ref,
    text,
)
from streamsched.domain.clock_judge import ClockFact
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.tasks.task import OnExisting

_NEW_TASK: Final = record(
    {"key": text("welcome")},
    {
        "lane": text("customer-7"),
        "due": instant(),
        "after": duration("10m"),
        "data": anything({"to": "x"}),
        "text": text("hello"),
        "base64": text("aGVsbG8="),
        "contentType": text("application/json"),
        "recurrence": record(
            {"rhythm": {"type": "object", "examples": [{"type": "EVERY", "interval": "1h"}]}},
            {
                "repeats": integer(10, least=1),
                "until": instant(),
                "ttl": duration("1d"),
                "misfire": choice(Misfire),
                "window": duration("6h"),
            },
        ),
        "retry": ref("TaskRetry"),
        "onExisting": choice(OnExisting),
    },
) | {"examples": [{"key": "welcome", "lane": "customer-7", "after": "10m", "data": {"to": "x"}}]}
_LETTER: Final = answer(
    {
        "id": any_text("0/17"),
        "topic": any_text("events.partitions"),
        "partition": integer(0),
        "offset": integer(17),
        "at": instant(),
        "path": any_text("$.data.dataset"),
        "reason": any_text("must be text but is null"),
        "key": MAYBE_TEXT,
        "value": MAYBE_TEXT,
    },
    {"cut": anything(None)},
)
OPERATING: Final[Definitions] = {
    "NewTask": _NEW_TASK,
    "NewDue": {**record({}, {"due": instant(), "after": duration("10m"), **REASON}), "examples": [{"after": "10m"}]},
    "LanePartitions": answer(
        {
            "partitions": integer(16),
            "wanted": nullable(integer(16)),
            "settled": boolean(),
            "step": MAYBE_TEXT,
            "taken": integer(16),
        }
    ),
    "NewLanePartitions": record({"partitions": integer(32, least=1, most=256)}),
    "TaskOwners": answer({"owners": array(answer({"id": any_text("host-1"), "url": any_text("http://host:1234")}))}),
    "AuditPage": page(
        "entries",
        answer(
            {
                "number": integer(1),
                "at": instant(),
                "caller": any_text("token:ci"),
                "action": any_text("PUT /v1/groups/{name}"),
                "target": any_text("/v1/groups/warehouse"),
                "detail": {"type": "object", "examples": [{"status": 200}]},
                "hash": any_text("9f86d0"),
            }
        ),
    ),
    "AuditVerdict": one_of(
        answer({"intact": boolean(), "entries": integer(4), "removed": integer(0), "last": any_text("9f86d0")}),
        answer({"intact": boolean(example=False), "number": integer(2), "reason": any_text("its content has changed")}),
    ),
    "Overview": {"type": "object", "description": "Shards, and what waits for the relay, timers and launchers."},
    "Checks": answer(
        {
            "health": any_text("ok"),
            "findings": array(
                answer(
                    {"check": any_text("clocks"), "health": any_text("ok"), "found": any_text(), "advice": any_text("")}
                )
            ),
        }
    ),
    "Clock": answer(
        {
            "database": instant(),
            "counted": instant(),
            "aheadSeconds": number(31536000.0),
            "doubt": MAYBE_TEXT,
            "number": integer(1),
            "last": nullable(
                answer({"fact": choice(ClockFact), "at": instant(), "by": any_text("launcher-1")}),
            ),
        }
    ),
    "SeenJudgement": record({"number": integer(1)}),
    "DeadLetter": _LETTER,
    "DeadLetterPage": page("letters", ref("DeadLetter")),
    "Purged": answer({"purged": integer(3)}),
    "Replayed": answer({"id": any_text("0/17"), "topic": any_text("events.partitions"), "partition": integer(0)}),
    "ShardState": answer(
        {
            "schedule": SCHEDULE,
            "shard": integer(0),
            "generation": integer(1),
            "enabled": boolean(),
            "keeping": boolean(),
            "draining": boolean(example=False),
            "backlog": boolean(example=False),
            "when": any_text(),
            "fired": integer(0),
            "progress": {"type": "object"},
            "open": object_by_name({"type": "object"}, "day=2026-03-01"),
        }
    ),
    "Health": answer({"status": any_text("ready"), "checks": object_by_name(any_text("ok"), "database")}),
}
