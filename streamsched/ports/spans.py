"""Where spans are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamsched.domain.jobs.spans import TraceSpan


class SpanSender(Protocol):
    """Sends spans to a receiver of OpenTelemetry."""

    async def send(self, spans: Sequence[TraceSpan]) -> bool:
        """Whether the receiver accepted them. Takes at most as long as its timeout, and never raises for a receiver
        that is away.
        """
        ...
