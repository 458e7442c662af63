"""Runs with where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.schedules.provenance import ChainedRun, Provenance, RunOrigin
from streamsched.wire.runs import Run

_JOB: Final = About("default.flights.weekly.1.1")
_RUN: Final = About("default.flights.weekly.1.1.r1")
ORIGIN: Final = JsonShape(RunOrigin, about={"text": About("7 events")})
CHAINED: Final = JsonShape(ChainedRun, about={"job": _JOB, "run": _RUN})
PROVENANCE: Final = JsonShape(
    Provenance,
    about={
        "origin": About(shape=ORIGIN),
        "changed": About("program default.flights.join", name="changedSince"),
        "chain": About(shape=CHAINED),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRun(Run):
    """A run, and where it comes from; None when that cannot be read."""

    provenance: Annotated[Provenance | None, About(shape=PROVENANCE)]


EXPLAINED_RUN: Final = JsonShape(ExplainedRun)
