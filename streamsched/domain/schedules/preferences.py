"""Preferences of a namespace: arguments of every run of its programs.

They override the defaults of a program; key columns, schedule properties and what a person gives override them. They
are merged into the program when a job becomes a run, or when a manual run is made: a run that exists keeps its
arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_most
from streamsched.domain.schedules.arguments import KEY_PREFIX, LOGICAL_START_TIME, PREFIX, argument_path, check_texts
from streamsched.domain.schedules.schedule import Program

#: Most characters of all names and values of a namespace together: every run has a copy.
LONGEST_PREFERENCES: Final = 65_536


def with_preferences(program: Program, preferences: Mapping[str, str]) -> Program:
    """The program with arguments that its namespace's preferences override."""
    return replace(program, arguments={**program.arguments, **preferences}) if preferences else program


def changed_preferences(
    preferences: Mapping[str, str], changes: Mapping[str, str | None], path: str = "$.arguments"
) -> Mapping[str, str]:
    """The preferences with these added or changed; None removes one, also one that does not exist.

    Raises:
        InvalidDefinitionError, InvalidError: as `check_preferences`.
    """
    changed = {name: value for name, value in {**preferences, **changes}.items() if value is not None}
    check_preferences(changed, path)
    return changed


def check_preferences(preferences: Mapping[str, str], path: str = "$.arguments") -> None:
    """Raises:
    InvalidDefinitionError: too many, or too long together; a name that a trigger fact or a key column has.
    InvalidError: a name or a value is too long, or cannot be stored.
    """
    check_texts(preferences, path, "arguments")
    for name in preferences:
        if not name:
            raise InvalidDefinitionError(path, "must not have an empty name")
        if name.startswith((PREFIX, KEY_PREFIX)) or name == LOGICAL_START_TIME:
            raise InvalidDefinitionError(
                argument_path(path, name),
                "is the name of an argument that says what started a run; a preference would hide it",
            )
    total = sum(len(name) + len(value) for name, value in preferences.items())
    check_most(total, LONGEST_PREFERENCES, path, "characters in all names and values")
