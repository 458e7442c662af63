"""A whole CDAP, or saved answers of one: apps, preferences of namespaces, and the newest runs of each program.

Nothing stops the import but a server that is gone: what is not understood is a row of the report, with its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.codec.moving.draft import Imported, NoteKind, Report
from streamsched.dialects.cdap.codec.bulk import ZONE
from streamsched.dialects.cdap.codec.dump.answers import CdapAnswers, answer_path, list_of, text_of
from streamsched.dialects.cdap.codec.dump.app_draft import CdapAppDraft
from streamsched.dialects.cdap.codec.dump.application import CdapApplication, awaited_programs, read_application
from streamsched.dialects.cdap.codec.dump.names import CdapNames
from streamsched.dialects.cdap.codec.dump.preferences import preferences_of
from streamsched.dialects.cdap.codec.dump.runs import RUNS, runs_of
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.domain.names import ProgramRef, check_namespace

#: Most applications of a dump.
MOST_APPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """How a dump is read.

    Attributes:
        namespace: of all apps; empty: that of each.
        jars: the folder or URL where `<artifact>-<version>.jar` are.
        runs: most runs of a program, the newest.
        programs: programs in place of those of the dump, by `app.program` or `program`.
    """

    namespace: str = ""
    jars: str = "jars"
    runs: int = RUNS
    programs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ImportedDump:
    """What a dump becomes.

    Attributes:
        preferences: arguments by namespace here.
        schedules, programs, preference_count: how many the dump has; of schedules those that were carried.
    """

    imported: Imported
    preferences: Mapping[str, Mapping[str, str]]
    runs: tuple[ImportedRun, ...]
    schedules: int
    programs: int
    preference_count: int

    @property
    def summary(self) -> str:
        """One line with the numbers."""
        refused = sum(1 for _ in self.imported.notes_of(NoteKind.REFUSED))
        return (
            f"cdap apps {len(self.imported.apps)} programs {self.programs} schedules {self.schedules} "
            f"preferences {self.preference_count} runs {len(self.runs)} refused {refused}"
        )


def import_dump(answers: CdapAnswers, request: DumpRequest) -> ImportedDump:
    """Reads all namespaces.

    Raises:
        DecodeError: there are no namespaces, or their list is not understood.
        UnavailableError: the server does not answer.
    """
    return _DumpReader(answers, request).read()


class _DumpReader:
    def __init__(self, answers: CdapAnswers, request: DumpRequest) -> None:
        self._answers = answers
        self._request = request
        self._report = Report()
        self._names = CdapNames()
        self._apps: list[CdapApplication] = []
        self._preferences: dict[str, dict[str, str]] = {}
        self._count = 0
        self._runs: list[ImportedRun] = []

    def read(self) -> ImportedDump:
        installation = self._preferences_at()
        for namespace in self._namespaces():
            self._read_namespace(namespace, installation)
        awaited = {each for app in self._apps for each in awaited_programs(app)}
        drafts = [self._draft(app, awaited) for app in self._apps]
        for draft in drafts:
            draft.add_programs()
        for draft in drafts:
            draft.add_schedules()
        documents = tuple(draft.document() for draft in drafts)
        for app in self._apps:
            self._read_runs(app)
        report = self._report
        if any(app.schedules for app in self._apps):
            report.differs("all", ZONE)
            report.differs("all", "not kept of schedules: applicationVersion, lastUpdateTime")
        if not documents and not report.notes:
            report.cannot("all", "no application was found")
        return ImportedDump(
            Imported(documents, tuple(report.notes)),
            {namespace: found for namespace, found in self._preferences.items() if found},
            tuple(self._runs),
            sum(draft.schedules for draft in drafts),
            sum(len(app.programs) for app in self._apps),
            self._count,
        )

    def _namespaces(self) -> list[str]:
        answer = self._answers.read("namespaces")
        if answer is None:
            raise DecodeError("namespaces", "there is no such answer: is it a CDAP, or a folder of its answers?")
        found: list[str] = []
        for index, each in enumerate(list_of(answer, "namespaces")):
            name = text_of(each, "name") if isinstance(each, dict) else ""
            try:
                check_namespace(name)
                found.append(name)
            except InvalidError as exc:
                self._report.cannot(f"namespaces[{index}]", f"the namespace is left out: {exc.reason[:200]}")
        return list(dict.fromkeys(found))

    def _read_namespace(self, namespace: str, installation: Mapping[str, str]) -> None:
        at, here = ("namespaces", namespace), self._request.namespace or namespace
        own = self._preferences_at(*at)
        known = self._preferences.setdefault(here, {})
        for name, value in {**installation, **own}.items():
            if known.setdefault(name, value) != value:
                self._report.cannot(
                    f"{answer_path(*at, 'preferences')}.{name}",
                    f"namespace {here} has another value, of a namespace before",
                )
        names: list[str] = []
        schedules: list[Any] = []
        try:
            listed = list_of(self._answers.read(*at, "apps"), answer_path(*at, "apps"))
            names = [text_of(each, "name") for each in listed if isinstance(each, dict)]
            if len(names) < len(listed) or not all(names):
                self._report.cannot(answer_path(*at, "apps"), "has applications without a name")
        except InvalidError as exc:
            self._report.cannot(answer_path(*at, "apps"), f"the applications are left out: {exc.reason}")
        try:
            schedules = list_of(self._answers.read(*at, "schedules"), answer_path(*at, "schedules"))
        except InvalidError as exc:
            self._report.cannot(answer_path(*at, "schedules"), exc.reason)
        for name in dict.fromkeys(filter(None, names)):
            if len(self._apps) >= MOST_APPS:
                self._report.cannot(
                    answer_path(*at, "apps"), f"has more than {MOST_APPS} applications: the rest is left out"
                )
                return
            self._read_app(namespace, here, name, schedules)

    def _read_app(self, namespace: str, here: str, name: str, schedules: list[Any]) -> None:
        notes = len(self._report.notes)
        app = read_application(self._answers, namespace, name, schedules, self._report)
        ref = self._names.add(app, here, self._report)
        # Their app was not known before.
        own = self._report.of_app(ref.app)
        made, self._report.notes[notes:] = self._report.notes[notes:], []
        own.add_notes(made)
        self._apps.append(app)

    def _draft(self, app: CdapApplication, awaited: set[tuple[str, str, str]]) -> CdapAppDraft:
        ref = self._names.apps[app.id]
        report = self._report.of_app(ref.app)
        at = ("namespaces", app.namespace, "apps", app.name)
        whole = self._preferences_at(*at, report=report)
        own: dict[str, Mapping[str, str]] = {}
        for program in app.programs:
            name = self._names.programs[app.id, program.kind, program.name]
            own[name] = {**whole, **self._preferences_at(*at, program.kind.value, program.name, report=report)}
        request, namespace = self._request, self._preferences.get(ref.namespace, {})
        return CdapAppDraft(app, self._names, report, request.jars, request.programs, awaited, own, namespace)

    def _preferences_at(self, *at: str, report: Report | None = None) -> dict[str, str]:
        path = answer_path(*at, "preferences")
        report = report or self._report
        try:
            found = preferences_of(self._answers.read(*at, "preferences"), path, report)
        except InvalidError as exc:
            report.cannot(path, exc.reason)
            return {}
        if found:
            self._count += len(found)
            report.carries(path, f"preferences {', '.join(sorted(found))[:200]}: {_place(at)}")
        return found

    def _read_runs(self, app: CdapApplication) -> None:
        if not self._request.runs:
            return
        ref = self._names.apps[app.id]
        report = self._report.of_app(ref.app)
        for program in app.programs:
            at = ("namespaces", app.namespace, "apps", app.name, program.kind.value, program.name, "runs")
            path = answer_path(*at)
            name = ProgramRef(ref.namespace, ref.app, self._names.programs[app.id, program.kind, program.name])
            try:
                answer = self._answers.read(*at, most=self._request.runs)
                self._runs += runs_of(answer, name, path, report, most=self._request.runs)
            except InvalidError as exc:
                report.cannot(path, f"the runs are left out: {exc.reason}")


def _place(at: tuple[str, ...]) -> str:
    """Where preferences are here."""
    match len(at):
        case 0:
            return "of the installation in CDAP, here among those of each namespace"
        case 2:
            return "of the namespace"
        case 4:
            return "of the app in CDAP, here defaults of each of its programs"
        case _:
            return "defaults of the program"
