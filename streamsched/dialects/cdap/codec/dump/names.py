"""What the applications and programs of CDAP are called here, and schedules with those names.

Names of CDAP with a dot or a space are changed; two that would be one get a number. A workflow that became a graph has
two names more: of the programs whose completion says that it completed, or failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.codec.moving.draft import Report, free_name
from streamsched.dialects.cdap.codec.bulk import IGNORED_MEMBERS
from streamsched.dialects.cdap.codec.dump.answers import text_of
from streamsched.dialects.cdap.codec.dump.application import DEEPEST_TRIGGER, CdapApplication, program_id
from streamsched.dialects.cdap.codec.dump.programs import KINDS, CdapKind
from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json
from streamsched.domain.limits import LONGEST_NAME
from streamsched.domain.names import AppRef, ProgramRef

_COMPLETED: Final = "COMPLETED"


@dataclass
class CdapNames:
    """The names of a dump.

    Attributes:
        apps: by namespace and application of CDAP.
        programs: by `(namespace, application)`, kind and name of CDAP.
        ends: of workflows that are graphs, by namespace, application and workflow of CDAP: the programs that announce
            that it completed, and that it failed.
    """

    apps: dict[tuple[str, str], AppRef] = field(default_factory=dict[tuple[str, str], AppRef])
    programs: dict[tuple[tuple[str, str], CdapKind, str], str] = field(
        default_factory=dict[tuple[tuple[str, str], CdapKind, str], str]
    )
    ends: dict[tuple[str, str, str], tuple[str, str]] = field(
        default_factory=dict[tuple[str, str, str], tuple[str, str]]
    )
    #: Names of apps here, by namespace.
    _taken: defaultdict[str, set[str]] = field(init=False, default_factory=lambda: defaultdict(set))

    def add(self, app: CdapApplication, namespace: str, report: Report) -> AppRef:
        """Names an application and its programs. `namespace`: the one here."""
        ref = AppRef(namespace, _name(app.name, self._taken[namespace]))
        self._taken[namespace].add(ref.app)
        self.apps[app.id] = ref
        if ref.app != app.name:
            report.differs(app.path, f"application {app.name[:100]!r} is app {ref.app}: names have no such characters")
        used: set[str] = set()
        for program in app.programs:
            graph = program.nodes is not None and len(program.nodes) != 1
            name = _name(program.name, used | _other_names(app, program.name) if graph else used)
            used.add(name)
            self.programs[app.id, program.kind, program.name] = name
            if name != program.name:
                report.differs(program.path, f"{program.kind.word} {program.name[:100]!r} is program {name}")
        return ref

    def program(self, app: tuple[str, str], kind: str, name: str) -> str:
        """The program here; its own name where the dump does not have it. `kind`: CDAP's type; empty: any."""
        wanted = KINDS.get(kind.lower().replace("_", ""))
        kinds: Iterable[CdapKind] = CdapKind if wanted is None else (wanted, *CdapKind)
        return next((found for each in kinds if (found := self.programs.get((app, each, name))) is not None), name)

    def schedule(self, item: Json, app: CdapApplication, path: str, report: Report) -> Json:
        """The JSON of a schedule with the names here."""
        if not isinstance(item, dict):
            return item
        found = {name: value for name, value in item.items() if name not in IGNORED_MEMBERS}
        ref = self.apps[app.id]
        found |= {"application": ref.app, "namespace": ref.namespace}
        if isinstance(program := found.get("program"), dict):
            name = text_of(program, "programName")
            if name:
                found["program"] = {
                    **program,
                    "programName": self.program(app.id, text_of(program, "programType"), name),
                }
        if "trigger" in found:
            found["trigger"] = self._trigger(found["trigger"], app, path, report)
        return found

    def _trigger(self, value: Json, app: CdapApplication, path: str, report: Report, depth: int = 0) -> Json:
        if depth > DEEPEST_TRIGGER:
            return value
        if isinstance(value, list):
            return [self._trigger(each, app, path, report, depth + 1) for each in value]
        if not isinstance(value, dict):
            return value
        if str(value.get("type", "")).upper() != "PROGRAM_STATUS":
            return {name: self._trigger(each, app, path, report, depth + 1) for name, each in value.items()}
        program = value.get("programId")
        return self._status(value, program, app, path, report) if isinstance(program, dict) else value

    def _status(
        self,
        trigger: Mapping[str, Json],
        program: Mapping[str, Json],
        app: CdapApplication,
        path: str,
        report: Report,
    ) -> Json:
        whom = program_id(program, app)
        owner = self.apps.get(whom[:2])
        if owner is None:
            return trigger
        kind = text_of(program, "type")
        name = self.program(whom[:2], kind, whom[2])
        here = {**program, "namespace": owner.namespace, "application": owner.app, "program": name}
        ends = self.ends.get(whom) if KINDS.get(kind.lower() or "workflow") is CdapKind.WORKFLOW else None
        listed = trigger.get("programStatuses")
        if ends is None or not isinstance(listed, list):
            return {**trigger, "programId": here}
        wanted = {str(each).upper() for each in listed}
        programs = [ends[0]] * (_COMPLETED in wanted) + [ends[1]] * bool(wanted - {_COMPLETED})
        report.differs(
            path,
            f"workflow {whom[2]} is a graph: waited for is program {' or '.join(programs)}, which completes at its end",
        )
        leaves = [
            {**trigger, "programId": {**here, "program": each}, "programStatuses": [_COMPLETED]} for each in programs
        ]
        return leaves[0] if len(leaves) == 1 else {"type": "OR", "triggers": leaves}


def properties_of(schedule: Json) -> Mapping[str, str]:
    """The properties of a schedule that are texts."""
    found = schedule.get("properties") if isinstance(schedule, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def starts(schedule: Json) -> str:
    """The name of the program that a schedule starts; empty where it names none."""
    found = schedule.get("program") if isinstance(schedule, dict) else None
    return text_of(found, "programName") if isinstance(found, dict) else ""


def concurrency_of(schedule: Json) -> int | None:
    """The number of runs at a time that a schedule permits; None: any."""
    found = schedule.get("constraints") if isinstance(schedule, dict) else None
    listed = found if isinstance(found, list) else []
    limits = [
        each.get("maxConcurrency")
        for each in listed
        if isinstance(each, dict) and str(each.get("type", "")).upper() == "CONCURRENCY"
    ]
    return min((each for each in limits if isinstance(each, int) and not isinstance(each, bool)), default=None)


def _other_names(app: CdapApplication, program: str) -> set[str]:
    """The names of the schedules that start other programs: the schedule named as a graph must start it."""
    return {text_of(each, "name") for each, _ in app.schedules if isinstance(each, dict) and starts(each) != program}


def _name(wanted: str, taken: set[str]) -> str:
    """The name itself where it can be one here."""
    if wanted not in taken and len(wanted) <= LONGEST_NAME:
        try:
            ProgramRef("default", "app", wanted)
        except InvalidError:
            pass
        else:
            return wanted
    return free_name(wanted, taken)
