"""Preferences of CDAP: those of the installation and of a namespace are the namespace's here, those of an app and of a
program are defaults of the program.

What is nearer to the run wins, in CDAP and here, but for one step: here a preference of the namespace overrides a
default. Where both name an argument, the value of the program is a property of its schedules, which overrides both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamsched.codec.moving.draft import Report
from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.limits import MOST_PARTS
from streamsched.domain.schedules.preferences import LONGEST_PREFERENCES, check_preferences

#: Names that CDAP reads itself.
_OF_CDAP: Final = "system."
_MACRO: Final = "${"


def preferences_of(answer: Json, path: str, report: Report) -> dict[str, str]:
    """The preferences that can be arguments of runs here; a row for each of the others."""
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        report.cannot(path, "the preferences are not an object")
        return {}
    taken: dict[str, str] = {}
    room = LONGEST_PREFERENCES
    for name, value in answer.items():
        if not isinstance(value, str):
            report.cannot(member_path(path, name[:60]), "the preference is no text")
            continue
        why = _refusal_reason(name, value)
        if not why and (len(taken) >= MOST_PARTS or len(name) + len(value) > room):
            why = f"is more than fits: {MOST_PARTS} names, {LONGEST_PREFERENCES} characters together"
        if why:
            report.cannot(member_path(path, name[:60]), f"the preference {why}")
            continue
        room -= len(name) + len(value)
        taken[name] = value
        if _MACRO in value:
            report.differs(
                member_path(path, name), "the macro in its value is a text here, which the program gets as it is"
            )
    return taken


def _refusal_reason(name: str, value: str) -> str:
    if name.startswith(_OF_CDAP):
        return "is a setting of CDAP itself, such as a profile or a size: see `streamsched profile set`"
    try:
        check_preferences({name: value})
    except InvalidError as exc:
        return exc.reason[:300]
    return ""


def overridden_preferences(own: Mapping[str, str], namespace: Mapping[str, str]) -> dict[str, str]:
    """Those of a program that the preferences of its namespace would override with another value."""
    return {name: value for name, value in own.items() if namespace.get(name, value) != value}
