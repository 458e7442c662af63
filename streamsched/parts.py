"""What a dialect adds: each folder of `streamsched.dialects` says it in its `part.py`, as `PART`.

What a dialect adds is named by its place below the folder, `module:name`, and imported where it is used. So the core
imports no dialect (`.importlinter`), and a dialect whose folder is deleted is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

_DIALECTS: Final = "streamsched.dialects"


class PartCommand(NamedTuple):
    """A command: its place, the first sentence of its help, and the command after which it stands."""

    place: str
    summary: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A dialect. Places are of:

    Attributes:
        name: the name of its folder.
        rank: where it stands among the others in lists for people.
        pages: of the documentation, below `docs`.
        routes: `api.routing.routes.Route`s.
        service: what these use, made of the connections and the clock (`api.deps.dialect_service`).
        events: `codec.event.EventForm`, in which events may be.
        commands: commands by name, as `cli.shell.command_table.Source`.
        imports: functions that are commands of `streamsched import`, named as these.
        clients: by name, what `streamsched.tasks.client` has of it.
        settings: a `setting_values.SettingGroup`.
        loops: loops of a process that has all roles (`roles.role.PartLoops`).
        intakes: loops of one launcher at a time (`roles.launcher.PartIntakes`).
        connections: loops of each launcher while it delivers tasks (`roles.launcher.PartConnections`).
    """

    name: str
    rank: int = 0
    pages: Sequence[str] = ()
    routes: str = ""
    service: str = ""
    events: str = ""
    commands: Mapping[str, PartCommand] = field(default_factory=dict[str, PartCommand])
    imports: Sequence[str] = ()
    clients: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: str = ""
    loops: str = ""
    intakes: str = ""
    connections: str = ""

    @property
    def package(self) -> str:
        """Of its folder."""
        return f"{_DIALECTS}.{self.name}"

    def load(self, place: str) -> Any:
        """What is at a place.

        Raises:
            ImportError, AttributeError: there is nothing.
        """
        module, _, name = place.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), name)


@cache
def parts() -> Sequence[Part]:
    """The dialects, by rank and name. It imports their descriptions, not what they add."""
    names = (each.name for each in iter_modules(import_module(_DIALECTS).__path__))
    found = (import_module(f"{_DIALECTS}.{name}.part").PART for name in names)
    return sorted(found, key=lambda each: (each.rank, each.name))


def additions(kind: str) -> Iterator[tuple[Part, Any]]:
    """What the dialects add of a kind, an attribute of `Part` that is one place; those that add none are left out."""
    for part in parts():
        if place := getattr(part, kind):
            yield part, part.load(place)
