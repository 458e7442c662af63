"""A retry policy as JSON: `{"attempts": 3, "on": ["lost", "error"], "delay": "30s", "longest": "1h"}`. Only `attempts`
is required; without `on` every failure is retried.
"""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.time.duration import duration_text


def to_json(retry: Retry) -> dict[str, Any]:
    """The canonical JSON."""
    return {
        "attempts": retry.attempts,
        "on": sorted(retry.on),
        "delay": duration_text(retry.delay),
        "longest": duration_text(retry.longest),
    }


def from_json(fields: Fields) -> Retry:
    """Raises:
    DecodeError, InvalidDefinitionError: with the path of the field.
    """
    given: dict[str, Any] = {}
    on = fields.text_list("on")
    if fields.has("on"):
        given["on"] = frozenset(_failure(fields, name) for name in on)
    for name in ("delay", "longest"):
        if (duration := fields.optional_duration(name)) is not None:
            given[name] = duration
    attempts = fields.integer("attempts", minimum=1)
    fields.check_all_read()
    with prefix_errors(fields.path):
        return Retry(attempts, **given)


def _failure(fields: Fields, name: str) -> Failure:
    for failure in Failure:
        if failure.value == name:
            return failure
    return fields.fail("on", f"unknown failure {format_value(name)} (known: {', '.join(Failure)})")
