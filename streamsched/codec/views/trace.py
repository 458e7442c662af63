"""The id of a job's trace, from what is stored of the job."""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.scalar import instant
from streamsched.domain.jobs.spans import job_trace


def trace_of(job: str, ready: Any, spans: str | None) -> str | None:
    """None when it is in no trace. `ready`: at least the members `traceparent` and `satisfied_at` of its satisfaction;
    `spans`: whether it has spans.
    """
    try:
        traceparent = ready.get("traceparent")
        if spans is None and traceparent is None:
            return None
        return job_trace(job, instant(ready["satisfied_at"], "$.satisfied_at"), traceparent)
    except Exception:  # noqa: BLE001 - a row may hold anything; it is shown without
        return None
