"""Where a run comes from, as JSON.

{"origin": {"kind", "text", "events": [text], "rerunOf", "backfill", "item"}, "arguments": {name: source},
 "changedSince": [text], "chain": [{"job", "run", "attempt", "state", "rerunOf", "startedAt", "endedAt"}]}
"""

from __future__ import annotations

from typing import Any

from streamsched.domain.schedules.provenance import ChainedRun, Provenance


def to_json(provenance: Provenance) -> dict[str, Any]:
    """The provenance; the chain is empty for a run that no other repeats and that repeats no other."""
    origin = provenance.origin
    return {
        "origin": {
            "kind": origin.kind,
            "text": origin.text,
            "events": list(origin.events),
            "rerunOf": origin.rerun_of,
            "backfill": origin.backfill,
            "item": origin.item,
        },
        "arguments": dict(provenance.arguments),
        "changedSince": list(provenance.changed),
        "chain": [_run_view(each) for each in provenance.chain] if len(provenance.chain) > 1 else [],
    }


def _run_view(each: ChainedRun) -> dict[str, Any]:
    return {
        "job": each.job,
        "run": each.run,
        "attempt": each.attempt,
        "state": each.state,
        "rerunOf": each.rerun_of,
        "startedAt": each.started_at,
        "endedAt": each.ended_at,
    }
