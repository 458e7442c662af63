"""Constraints from outside: how they are found, made and asked. `examples/quiet_hours` is one.

An entry point of group `streamsched.constraints` is a `Maker`. It checks its configuration and returns what answers: a
function that may take its time and may fail, but is listened to for two seconds only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from streamsched.codec.reading import anchored, below
from streamsched.domain.admission import Verdict
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.plugin import PlugIn, Question
from streamsched.domain.schedule import Schedule

GROUP: Final = "streamsched.constraints"

#: Says what it thinks of a job. Called in a thread; several calls may run at once.
Answer = Callable[[Question], Verdict]
#: Makes one of its configuration; raises `InvalidError` with the path of a wrong field (`$.limit`).
Maker = Callable[[Mapping[str, Any]], Answer]


def installed() -> Mapping[str, Callable[[], Maker]]:
    """The plug-ins of this environment by their names; a maker is loaded when it is called for."""
    return {point.name: point.load for point in entry_points(group=GROUP)}


def made(plugin: PlugIn, known: Mapping[str, Callable[[], Maker]]) -> Answer:
    """The plug-in, configured.

    Raises:
        InvalidError: it is not installed, cannot be loaded, or refuses its configuration.
    """
    if plugin.name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise InvalidDefinitionError("$.name", f"no plug-in '{plugin.name}' is installed here (known: {names})")
    with anchored("$.config"):
        try:
            return known[plugin.name]()(plugin.settings)
        except InvalidError:
            raise
        except Exception as exc:
            raise InvalidDefinitionError("$", f"plug-in {plugin.name}: {type(exc).__name__}: {exc}") from exc


def check(schedule: Schedule, path: str, known: Mapping[str, Callable[[], Maker]]) -> None:
    """Raises:
    InvalidError: a plug-in of the schedule is not installed, or refuses its configuration; the path names the field.
    """
    for place, constraint in enumerate(schedule.constraints):
        if isinstance(constraint, PlugIn):
            with anchored(below(below(path, "constraints"), place)):
                made(constraint, known)
