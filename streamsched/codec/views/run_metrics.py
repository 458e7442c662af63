"""A run's metrics as JSON: stored with the run, and in the API's view of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from streamsched.codec.json.reading import Fields
from streamsched.domain.errors import DecodeError
from streamsched.domain.jobs.run_metrics import NUMBERS, RunMetrics

#: The names in JSON of all numbers.
NAMES: Final = {name: re.sub(r"_(\w)", lambda found: found[1].upper(), name) for name in NUMBERS}


def to_json(metrics: RunMetrics) -> dict[str, Any]:
    """`{"stages", "stagesDone", …, "complete"}`."""
    return {written: getattr(metrics, name) for name, written in NAMES.items()} | {"complete": metrics.complete}


def stored_from_json(value: Mapping[str, Any] | None) -> RunMetrics | None:
    """What `to_json` wrote, also of a release with other fields; None when there is nothing readable."""
    if value is None:
        return None
    try:
        found = Fields(value)
        numbers = {name: found.optional_integer(written, minimum=0) or 0 for name, written in NAMES.items()}
        return RunMetrics(**numbers, complete=found.optional_boolean("complete") or False)
    except DecodeError:
        return None
