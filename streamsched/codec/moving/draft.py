"""An app that is made from definitions of another system, piece by piece, with the report about them.

Each program and schedule is decoded when it is added. One that is invalid is left out, and the report says why; so the
finished app is always valid.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from streamsched.codec.schedules.schedule import program_from_json, submitted_schedule_from_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import AppRef
from streamsched.domain.schedules.template import replace_unprintable
from streamsched.domain.ticks.fire_times import check_cron
from streamsched.domain.triggers.trigger import Cron, ProgramStatus, leaves

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
#: Most characters of a made name.
_LONGEST_NAME: Final = 60


class NoteKind(StrEnum):
    """What becomes of a part of a definition, in the order in which a later one is the worse."""

    CARRIED = "carried"
    CHANGED = "changed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportNote:
    """A row of the table of an import: about the part of the input at `path`, such as `line 12`.

    Attributes:
        subject: what of it, such as `extract.retries`; empty: all of it.
        app: the app that it concerns; empty: all of the input.
    """

    kind: NoteKind
    path: str
    text: str
    subject: str = ""
    app: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """The apps that definitions become, each as the JSON of an app file, and the notes in the order of the input."""

    apps: tuple[dict[str, Any], ...]
    notes: tuple[ImportNote, ...]

    def of_app(self, app: str) -> tuple[ImportNote, ...]:
        """The notes that concern an app."""
        return tuple(note for note in self.notes if note.app in ("", app))

    def notes_of(self, kind: NoteKind) -> Iterator[ImportNote]:
        """The notes of one kind."""
        return (note for note in self.notes if note.kind is kind)


class Report:
    """The notes so far.

    Args:
        app: the app that new notes concern; empty: all of the input.
        notes: those before.
    """

    def __init__(self, app: str = "", notes: list[ImportNote] | None = None) -> None:
        self.app = app
        self.notes: list[ImportNote] = [] if notes is None else notes

    def of_app(self, app: str) -> Report:
        """The same report, whose new notes concern an app."""
        return Report(app, self.notes)

    def carries(self, path: str, text: str) -> None:
        """Notes what is carried over as it is."""
        self._add(NoteKind.CARRIED, path, text)

    def differs(self, path: str, text: str) -> None:
        """Notes what is carried over and behaves differently."""
        self._add(NoteKind.CHANGED, path, text)

    def cannot(self, path: str, text: str) -> None:
        """Notes what cannot be carried over."""
        self._add(NoteKind.REFUSED, path, text)

    def add_notes(self, notes: Iterable[ImportNote]) -> None:
        """Adds notes that were made before their app was known."""
        self.notes.extend(replace(each, app=self.app) for each in notes)

    def _add(self, kind: NoteKind, path: str, text: str) -> None:
        self.notes.append(ImportNote(kind, path, text, app=self.app))


@dataclass
class AppDraft:
    """An app in the making."""

    ref: AppRef
    report: Report
    programs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def name(self, wanted: str, taken: Mapping[str, object]) -> str:
        """A valid name like the wanted one that is not taken."""
        return free_name(wanted, taken)

    def add_program(self, wanted: str, program: Mapping[str, Any], path: str) -> str | None:
        """Adds a program and returns its name; None if it is invalid."""
        name = self.name(wanted, self.programs)
        try:
            program_from_json({"name": name, **program}, app=self.ref)
        except InvalidError as exc:
            self.report.cannot(path, f"its program is left out: {_reason(exc)}")
            return None
        self.programs[name] = dict(program)
        return name

    def add_schedule(self, wanted: str, schedule: Mapping[str, Any], path: str, *, exact: bool = False) -> str | None:
        """Adds a schedule and returns its name, the wanted one where it is `exact`; None if it is invalid, or starts or
        waits for no program of the app.
        """
        name = wanted if exact else self.name(wanted, self.schedules)
        try:
            decoded = submitted_schedule_from_json({"name": name, **schedule}, app=self.ref).schedule
            for leaf in leaves(decoded.trigger):
                if isinstance(leaf, Cron):
                    check_cron(leaf)
        except InvalidError as exc:
            self.report.cannot(path, f"its schedule is left out: {_reason(exc)}")
            return None
        waits_for = {leaf.program for leaf in leaves(decoded.trigger) if isinstance(leaf, ProgramStatus)}
        needed = {decoded.program, *(program for program in waits_for if program.owner == self.ref)}
        missing = sorted(program.name for program in needed if program.name not in self.programs)
        if missing:
            self.report.cannot(path, f"its schedule is left out, because there is no program {', '.join(missing)}")
            return None
        self.schedules[name] = dict(schedule)
        return name

    def document(self) -> dict[str, Any]:
        """The app as the JSON of an app file."""
        return {
            "namespace": self.ref.namespace,
            "application": self.ref.app,
            "programs": self.programs,
            "schedules": self.schedules,
            **({"tasks": self.tasks} if self.tasks else {}),
        }


def free_name(wanted: str, taken: Container[str]) -> str:
    """A valid name like the wanted one that is not taken."""
    base = valid_name(wanted)
    number, found = 1, base
    while found in taken:
        number += 1
        found = f"{base}-{number}"
    return found


def valid_name(wanted: str) -> str:
    """A valid name like the wanted one."""
    return _ODD.sub("-", wanted).strip("-")[:_LONGEST_NAME] or "unnamed"


def placeholder(what: str) -> dict[str, Any]:
    """A program that fails with a message until it is replaced."""
    quoted = replace_unprintable(what).replace("'", "'\\''")
    return {"type": "bash", "command": f"echo 'replace this program: {quoted}' >&2; exit 1"}


def _reason(exc: InvalidError) -> str:
    return exc.reason if exc.path == "$" else f"{exc.path.removeprefix('$').removeprefix('.')}: {exc.reason}"
