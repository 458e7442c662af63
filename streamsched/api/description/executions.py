"""Schemas of bodies and answers about jobs, runs, backfills and graphs."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import APP, JOB, MAYBE_TEXT, REASON
from streamsched.codec.backfills import OPTIONS
from streamsched.codec.schema.apps import DEFINITIONS
from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    choice,
    extend,
    instant,
    integer,
    nullable,
    object_by_name,
    one_of,
    record,
    text,
)
from streamsched.domain.graph.node import NodeState
from streamsched.domain.jobs.run import RunState

_MAYBE_RUN: Final = nullable(choice(RunState))
_VALUES: Final = one_of(text("2013-01-01..2013-01-31"), array(text("AA")))
_SPAN: Final = {
    "from": text("2026-03-01"),
    "to": text("2026-03-07"),
    "keys": object_by_name(_VALUES, "day"),
    "dataset": text("default.flights"),
    "partitions": array(one_of(text("day=2026-03-01"), {"type": "object"})),
}
_NODE: Final = {"task": any_text("report"), "jobId": any_text("20260301"), "state": nullable(choice(NodeState))}
_NODE_SHOWN: Final = answer(
    {
        **_NODE,
        "runState": _MAYBE_RUN,
        "job": nullable(JOB),
        "round": integer(1),
        "reason": MAYBE_TEXT,
        "createdAt": instant(),
        "changedAt": instant(),
    }
)
_WAITING_NODE: Final = {**_NODE, "awaits": MAYBE_TEXT}
_PLAN: Final = answer(
    {
        "task": any_text("report"),
        "submitted": integer(1),
        "created": object_by_name(integer(1), "report"),
        "reset": object_by_name(integer(0), "report"),
        "joined": integer(0),
        "skipped": integer(0),
        "ended": array(answer(_NODE)),
        "endedInAll": integer(0),
        "awaited": array(any_text()),
        "awaitedInAll": integer(0),
        "jobs": integer(1),
    },
    {"downstream": object_by_name(object_by_name(integer(1), "COMPLETED"), "report")},
)

EXECUTIONS: Final[Definitions] = {
    "NewBackfill": {
        **extend(record({}, _SPAN), OPTIONS.body_schema()),
        "description": "One span: `from` and `to`, or `keys`, or `dataset` and `partitions`.",
        "examples": [{"from": "2026-03-01", "to": "2026-03-07", "maxActive": 4, "reason": "the feed was down"}],
    },
    "Graph": answer(
        {
            "app": APP,
            "generation": integer(1),
            "tasks": array(
                extend(
                    DEFINITIONS["StoredTask"],
                    answer({"name": any_text("report"), "nodes": object_by_name(integer(1), "COMPLETED")}),
                )
            ),
        }
    ),
    "NodeList": answer({"nodes": array(_NODE_SHOWN)}),
    "Node": answer(
        {
            **_NODE,
            "job": nullable(JOB),
            "reason": MAYBE_TEXT,
            "awaits": MAYBE_TEXT,
            "valid": nullable(boolean()),
            "groups": array(
                answer(
                    {
                        "group": any_text("default"),
                        "parents": integer(1),
                        "missing": integer(1),
                        "lacks": array(answer(_WAITING_NODE)),
                    }
                )
            ),
            "roots": array(answer({**_NODE, "job": nullable(JOB), "reason": MAYBE_TEXT})),
            "rootsInAll": integer(0),
            "allRoots": boolean(),
        },
        {"runState": _MAYBE_RUN, "round": integer(1), "createdAt": instant(), "changedAt": instant()},
    ),
    "NodeSubmission": {
        **record(
            {"task": text("report")},
            {
                "jobIds": array(text("20260301")),
                "values": object_by_name(array(text("AA")), "client"),
                "ranges": object_by_name(text("20140101..20140131"), "date"),
                "all": array(text("client")),
                "again": boolean(example=False),
            },
        ),
        "examples": [{"task": "report", "jobIds": ["20260301"]}],
    },
    "NodeRerun": record({"task": text("report"), "jobIds": array(text("20260301"), minItems=1)}),
    "NodeCancellation": record({"task": text("report")}, {"jobIds": array(text("20260301")), **REASON}),
    "NodePlan": _PLAN,
    "CancelledNodes": answer(
        {
            "failed": integer(1),
            "cancelled": array(JOB),
            "running": array(JOB),
            "ended": integer(0),
            "unknown": integer(0),
        }
    ),
    "Picture": {"type": "object", "description": "Nodes and edges."},
}
