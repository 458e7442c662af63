"""The context that a run's program goes on from."""

from __future__ import annotations

from dataclasses import replace

from streamsched.domain.events.sampler import Sampler
from streamsched.domain.jobs.spans import program_context
from streamsched.ports.runs import Assignment


def add_program_context(assignment: Assignment, sampler: Sampler | None) -> Assignment:
    """The assignment with its context, if it has one. `sampler`: None where no spans are made."""
    context = program_context(assignment.run, assignment.ready, sampler)
    return assignment if context is None else replace(assignment, traceparent=str(context))
