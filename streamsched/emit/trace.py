"""The trace that this process is in, which its events continue."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from streamsched.domain.events.trace_context import TraceContext, canonical

#: The variable that a run has when its job is part of a trace; other programs of a trace have it too.
TRACEPARENT: Final = "TRACEPARENT"


def this_context(environ: Mapping[str, str] = os.environ) -> str | None:
    """The `traceparent` of the current span, if the program uses OpenTelemetry, else that of the environment; None
    without either. OpenTelemetry is never imported here.
    """
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is not None:
        current = api.get_current_span().get_span_context()
        if current.is_valid:
            sampled = bool(current.trace_flags & 1)
            return str(TraceContext(f"{current.trace_id:032x}", f"{current.span_id:016x}", sampled))
    return canonical(environ.get(TRACEPARENT))
