"""JSON responses, encoded by orjson. Instants are ISO 8601 in UTC with `Z`, durations are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
from starlette.responses import Response

#: A dataclass is no JSON: its shape writes it, with the names of JSON.
_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS


def json_response(
    body: object, *, status: int = 200, media_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Response:
    """A response with `body` as JSON."""
    return Response(encode_json(body), status_code=status, media_type=media_type, headers=headers)


def encode_json(body: object) -> bytes:
    """`body` as JSON."""
    return orjson.dumps(body, default=_default, option=_OPTIONS)


def _default(value: Any) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
