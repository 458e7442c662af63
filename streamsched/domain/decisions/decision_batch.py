"""A program of a batch with its decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamsched.domain.decisions.decision import Decision, DecisionInput


@dataclass(frozen=True, slots=True)
class DecidedProgram:
    """A decision input with one decision for each of its due jobs, in their order."""

    program: str
    input: DecisionInput
    decisions: Sequence[Decision]
