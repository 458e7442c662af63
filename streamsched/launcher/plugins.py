"""Constraints from plug-ins: discovery, configuration, validation. `examples/quiet_hours` is one.

An entry point of group `streamsched.constraints` is a `Maker`. It checks its configuration and returns an `Answer`: a
function that may block and may raise; after two seconds its result is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streamsched.codec.json.reading import prefix_errors
from streamsched.domain.constraints.plugin import PlugIn, Question
from streamsched.domain.decisions.admission import ConstraintVerdict
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.json_value import member_path
from streamsched.domain.schedules.schedule import Schedule
from streamsched.process.entry_points import installed_points

GROUP: Final = "streamsched.constraints"

#: The verdict on a job. Called in a thread; several calls may run at a time.
Answer = Callable[[Question], ConstraintVerdict]
#: Makes an answer from a configuration; raises `InvalidError` with the path of a wrong field (`$.limit`).
Maker = Callable[[Mapping[str, Any]], Answer]


def find_installed() -> Mapping[str, Callable[[], Maker]]:
    """The plug-ins of this environment by name; a maker is imported on first use."""
    return {name: point.load for name, point in installed_points(GROUP).items()}


def make_plugin(plugin: PlugIn, known: Mapping[str, Callable[[], Maker]]) -> Answer:
    """The plug-in, configured.

    Raises:
        InvalidError: it is not installed, cannot be loaded, or refuses its configuration.
    """
    if plugin.name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise InvalidDefinitionError("$.name", f"no plug-in '{plugin.name}' is installed here (known: {names})")
    with prefix_errors("$.config"):
        try:
            return known[plugin.name]()(plugin.settings)
        except InvalidError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # third-party code
            raise InvalidDefinitionError("$", f"plug-in {plugin.name}: {type(exc).__name__}: {exc}") from exc


def check(schedule: Schedule, path: str, known: Mapping[str, Callable[[], Maker]]) -> None:
    """Raises:
    InvalidError: a plug-in of the schedule is not installed, or refuses its configuration; the path names the field.
    """
    for index, constraint in enumerate(schedule.constraints):
        if isinstance(constraint, PlugIn):
            with prefix_errors(member_path(member_path(path, "constraints"), index)):
                make_plugin(constraint, known)
