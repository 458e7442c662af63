"""An application as it is deployed: its programs and schedules together."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef
from streamsched.domain.schedule import Program, Schedule


@dataclass(frozen=True, slots=True)
class AppDefinition:
    """Programs and schedules of one app; a schedule is created enabled when its ref is in `enabled`."""

    ref: AppRef
    programs: tuple[Program, ...]
    schedules: tuple[Schedule, ...]
    enabled: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for kind, things in (("program", self.programs), ("schedule", self.schedules)):
            names = [thing.ref.name for thing in things]
            for thing in things:
                if thing.ref.owner != self.ref:
                    raise InvalidDefinitionError(f"$.{kind}s", f"{thing.ref} is not of app {self.ref}")
                if names.count(thing.ref.name) > 1:
                    raise InvalidDefinitionError(f"$.{kind}s", f"{kind} '{thing.ref.name}' is defined twice")
        known = {program.ref for program in self.programs}
        for schedule in self.schedules:
            if schedule.program not in known:
                raise InvalidDefinitionError(
                    "$.schedules", f"schedule '{schedule.ref.name}' starts unknown program '{schedule.program.name}'"
                )
