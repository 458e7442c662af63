"""Sampling: the decision whether the spans of a trace are recorded, by the rules of OpenTelemetry's samplers.

The decision depends on the trace id and the parent only, so that every process makes the same one.

>>> Sampler(ratio=0.0).samples("4bf92f3577b34da6a3ce929d0e0e4736", None)
False
>>> Sampler(ratio=0.0).samples("4bf92f3577b34da6a3ce929d0e0e4736", TraceContext("4bf92f", "00f067", sampled=True))
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streamsched.domain.events.trace_context import TraceContext

#: A ratio is compared with the lower 64 bits of the trace id.
_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Sampler:
    """A sampler.

    Attributes:
        ratio: the share of traces that are recorded, from 0 to 1.
        by_parent: a trace that began elsewhere is recorded if its context says so, whatever the ratio.
    """

    ratio: float = 1.0
    by_parent: bool = True

    def samples(self, trace_id: str, parent: TraceContext | None) -> bool:
        """Whether spans of this trace are recorded; `parent`: None where the trace begins."""
        if self.by_parent and parent is not None:
            return parent.sampled
        return int(trace_id, 16) & ((1 << _BITS) - 1) < round(self.ratio * (1 << _BITS))
