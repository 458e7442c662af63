"""Trace contexts: the position in a distributed trace that an event, a job or a run belongs to (W3C Trace Context).

    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01

>>> context = parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
>>> context.trace_id, context.span_id, context.sampled
('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', True)
>>> parse_traceparent("00-4bf92f-00f067aa0ba902b7-01") is None
True

A malformed context is ignored, as the W3C prescribes: it never makes an event invalid. `tracestate` is not carried.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
_FORBIDDEN_VERSION: Final = "ff"
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """A span of a trace.

    Attributes:
        trace_id: 32 lower-case hexadecimal digits, not all zero.
        span_id: 16 of them, not all zero; the parent of what goes on from here.
        sampled: whether spans of this trace are recorded.
    """

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        """As `traceparent`, version 00."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def parse_traceparent(value: object) -> TraceContext | None:
    """The context of a `traceparent`; None when it is malformed or not text. Of a later version, the fields that
    version 00 knows are read.
    """
    if not isinstance(value, str):
        return None
    found = _FORM.fullmatch(value.strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _FORBIDDEN_VERSION or (version == "00" and more) or not (trace_id.strip("0") and span_id.strip("0")):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def canonical(value: object) -> str | None:
    """The `traceparent` in version 00, always 55 characters; None when it is malformed."""
    context = parse_traceparent(value)
    return None if context is None else str(context)
