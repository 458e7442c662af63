"""Spans of the acceptance of events that are part of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from streamsched.domain.events.event import Event
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.events.trace_context import canonical
from streamsched.domain.jobs.spans import TraceSpan, emit_context, emit_span


def in_trace_of(headers: Mapping[str, str], events: Sequence[Event]) -> Sequence[Event]:
    """The events; those without a context of their own get that of the request (header `traceparent`), if any."""
    context = canonical(headers.get("traceparent"))
    if context is None:
        return events
    return [event if event.traceparent is not None else replace(event, traceparent=context) for event in events]


class EmitSpans:
    """Makes the `emit` spans of events that have a context, and no others."""

    def __init__(self, sampler: Sampler, put: Callable[[Iterable[TraceSpan]], None]) -> None:
        """`put`: takes finished spans, without waiting."""
        self._sampler = sampler
        self._put = put

    def continue_traces(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events as they go into the log: what they lead to is in the trace below their `emit` spans."""
        return [self._continue_trace(event) for event in events]

    def record_accepted(self, events: Sequence[Event], *, began_at: datetime, ended_at: datetime) -> None:
        """`events`: as they were sent, between the two times."""
        self._put(self._spans(events, began_at, ended_at))

    def _continue_trace(self, event: Event) -> Event:
        context = emit_context(event, self._sampler)
        return event if context is None else replace(event, traceparent=str(context))

    def _spans(self, events: Sequence[Event], began_at: datetime, ended_at: datetime) -> Iterator[TraceSpan]:
        for event in events:
            context = emit_context(event, self._sampler)
            if context is not None and context.sampled:
                yield emit_span(event, context, began_at=began_at, ended_at=ended_at)
