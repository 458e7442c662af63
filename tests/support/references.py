"""Definitions that refer to another namespace, made from the types of the domain: each kind of leaf, at each place of
each composite, each constraint and each program that names something. A field with a name that is not classified here
is an error.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, Final

from streamsched.domain.access.namespace_grant import SharedKind
from streamsched.domain.access.references import (
    Reference,
    expectation_references,
    program_references,
    schedule_references,
)
from streamsched.domain.constraints.constraint import Constraint
from streamsched.domain.constraints.rate import RateScope
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.names import AppRef, DatasetRef, EventName, ExpectationRef, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import Executable, Program, PublishJob, Schedule
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.leaf import EventLeaf
from streamsched.domain.triggers.timed import Timed
from streamsched.domain.triggers.trigger import Composite, Leaf, ProgramStatus, Trigger, leaves

OWN, FOREIGN = "sales", "finance"


class Plain(Enum):
    """What a field with a text or name is that refers to nothing in another namespace.

    OWN: a thing of the definition's own app or namespace. INSTALLATION: a name that administrators permit: a profile's
    or a secret's rules, a cluster, a plug-in, a master. TEXT: no name of a thing.
    """

    OWN = "own"
    INSTALLATION = "installation"
    TEXT = "text"


class Sent(StrEnum):
    """Kinds of references besides those of grants."""

    PUBLISHED = "published event"
    QUEUE = "queue"


Kind = SharedKind | Sent | Plain

#: Every field of a definition that has a text or a name, by class and field.
CLASSIFIED: Final[Mapping[str, Kind]] = {
    "AppDefinition.ref": Plain.OWN,
    "AppDefinition.enabled": Plain.OWN,
    "AppDefinition.keeping": Plain.OWN,
    "ArrivalJob.formats": Plain.TEXT,
    "ArrivalJob.zone": Plain.TEXT,
    "BashJob.command": Plain.TEXT,
    "Calendar.name": Plain.TEXT,
    "Cron.expression": Plain.TEXT,
    "KnownSet.column": Plain.TEXT,
    "KnownSet.values": Plain.TEXT,
    "Cron.zone": Plain.TEXT,
    "CustomEvent.name": SharedKind.EVENT,
    "Deadline.program": Plain.OWN,
    "Deadline.zone": Plain.TEXT,
    "DependencyGroup.name": Plain.OWN,
    "DriverSize.memory": Plain.TEXT,
    "EnqueueJob.data": Plain.TEXT,
    "EnqueueJob.key": Plain.TEXT,
    "EnqueueJob.lane": Plain.TEXT,
    "EnqueueJob.queue": Sent.QUEUE,
    "Entry.function": Plain.INSTALLATION,
    "Entry.job_ids": Plain.TEXT,
    "Entry.tasks": Plain.OWN,
    "Entry.values": Plain.TEXT,
    "Every.zone": Plain.TEXT,
    "ExecutorSize.memory": Plain.TEXT,
    "Expectation.key": Plain.TEXT,
    "Expectation.program": Plain.OWN,
    "Expectation.ref": Plain.OWN,
    "Expectation.subject": SharedKind.DATASET,
    "Expectation.zone": Plain.TEXT,
    "Glob.pattern": Plain.TEXT,
    "Group.name": SharedKind.GROUP,
    "HttpJob.body": Plain.TEXT,
    "HttpJob.headers": Plain.TEXT,
    "HttpJob.method": Plain.TEXT,
    "HttpJob.url": Plain.TEXT,
    "JobTemplate.components": Plain.TEXT,
    "JobTemplate.delimiter": Plain.TEXT,
    "JobTemplate.kinds": Plain.TEXT,
    "JobTemplate.validations": Plain.INSTALLATION,
    "JobTemplate.validators": Plain.INSTALLATION,
    "Load.cluster": Plain.INSTALLATION,
    "MailRecipient.schedules": Plain.OWN,
    "MailRecipient.to": Plain.INSTALLATION,
    "Match.columns": Plain.TEXT,
    "OneOf.values": Plain.TEXT,
    "Partitions.dataset": SharedKind.DATASET,
    "Per.by": Plain.TEXT,
    "Per.run_of": SharedKind.PROGRAM,
    "Per.zone": Plain.TEXT,
    "PlugIn.config": Plain.TEXT,
    "PlugIn.name": Plain.INSTALLATION,
    "Pool.name": SharedKind.POOL,
    "Program.arguments": Plain.TEXT,
    "Program.ref": Plain.OWN,
    "ProgramRecipient.program": Plain.OWN,
    "ProgramRecipient.schedules": Plain.OWN,
    "ProgramOutput.dataset": Plain.OWN,
    "ProgramOutput.location": Plain.TEXT,
    "ProgramStatus.program": SharedKind.PROGRAM,
    "PublishJob.attributes": Plain.TEXT,
    "PublishJob.event": Sent.PUBLISHED,
    "PythonJob.arguments": Plain.TEXT,
    "PythonJob.bundle": Plain.OWN,
    "PythonJob.env": Plain.TEXT,
    "PythonJob.folder": Plain.TEXT,
    "PythonJob.secret_env": Plain.INSTALLATION,
    "PythonJob.target": Plain.TEXT,
    "Rate.group": SharedKind.GROUP,
    "Schedule.description": Plain.TEXT,
    "Schedule.program": Plain.OWN,
    "Schedule.properties": Plain.TEXT,
    "Schedule.ref": Plain.OWN,
    "Secret.name": Plain.INSTALLATION,
    "Secret.provider": Plain.INSTALLATION,
    "SparkJob.arguments": Plain.TEXT,
    "SparkJob.conf": Plain.TEXT,
    "SparkJob.env": Plain.TEXT,
    "SparkJob.env_from_os": Plain.INSTALLATION,
    "SparkJob.folder": Plain.TEXT,
    "SparkJob.main": Plain.TEXT,
    "SparkJob.master": Plain.INSTALLATION,
    "SparkJob.module": Plain.TEXT,
    "SparkJob.uris": Plain.TEXT,
    "SparkNeeds.archives": Plain.TEXT,
    "SparkNeeds.bundle": Plain.OWN,
    "SparkNeeds.files": Plain.TEXT,
    "SparkNeeds.jars": Plain.TEXT,
    "SparkNeeds.main_class": Plain.TEXT,
    "SparkNeeds.packages": Plain.TEXT,
    "SparkNeeds.profile": Plain.INSTALLATION,
    "SparkNeeds.py_files": Plain.TEXT,
    "SparkNeeds.requirements": Plain.TEXT,
    "SparkNeeds.secret_conf": Plain.INSTALLATION,
    "SparkNeeds.secret_env": Plain.INSTALLATION,
    "StreamGrowth.stream": SharedKind.STREAM,
    "TaskTemplate.arguments": Plain.TEXT,
    "TaskTemplate.arrives": Plain.TEXT,
    "TaskTemplate.title": Plain.TEXT,
    "TaskTemplate.exit_codes": Plain.OWN,
    "TaskTemplate.autofill": Plain.TEXT,
    "TaskTemplate.name": Plain.OWN,
    "NearTick.expression": Plain.TEXT,
    "NearTick.zone": Plain.TEXT,
    "TimeArgument.component": Plain.TEXT,
    "TimeArgument.format": Plain.TEXT,
    "TimeArgument.zone": Plain.TEXT,
    "TimeWindow.zone": Plain.TEXT,
    "Total.dataset": SharedKind.DATASET,
    "ValidIf.function": Plain.INSTALLATION,
    "ValidIf.values": Plain.TEXT,
    "WebhookRecipient.schedules": Plain.OWN,
    "WebhookRecipient.webhook": Plain.OWN,
}
_NAMES: Final = (str, DatasetRef, StreamRef, EventName, ProgramRef, ScheduleRef, AppRef, ExpectationRef)
#: What else a field must be for the one that names something to be allowed.
_BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {"Rate.group": {"of": RateScope.GROUP}, "Per.run_of": {"by": ()}}


def named_fields() -> set[str]:
    """Every field with a text or a name that a definition of an app can have, found through the types."""
    found, seen, todo = set[str](), set[type](), [AppDefinition]
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        for field, hint in _hints(kind):
            parts = list(_parts(hint))
            if field.init and any(part in _NAMES for part in parts):
                found.add(f"{kind.__name__}.{field.name}")
            todo += [part for part in parts if isinstance(part, type) and is_dataclass(part) and part not in _NAMES]
    return found


@dataclass(frozen=True)
class Part:
    """A part of a definition that refers to something of `FOREIGN`: a schedule, a program, or an expectation."""

    label: str
    kind: SharedKind | Sent
    trigger: Trigger | None = None
    constraint: Constraint | None = None
    executable: Executable | None = None
    expectation: Expectation | None = None

    @property
    def details(self) -> bool:
        """Whether it reads arguments of a program's runs."""
        return any(getattr(each, "details", False) for each in self.references())

    def references(self) -> list[Reference]:
        """What the domain says it refers to."""
        expected = [] if self.expectation is None else expectation_references(self.expectation)
        return [*schedule_references(self.schedule("s")), *program_references(self.program()), *expected]

    def program(self) -> Program:
        """The program of its schedule."""
        return Program(ProgramRef(OWN, "app", "p"), self.executable or PublishJob(EventName(OWN, "done")))

    def schedule(self, name: str) -> Schedule:
        """The schedule, by this name."""
        trigger = self.trigger or own_leaf()
        constraints = () if self.constraint is None else (self.constraint,)
        return Schedule(ScheduleRef(OWN, "app", name), ProgramRef(OWN, "app", "p"), trigger, constraints)


def own_leaf() -> Trigger:
    """A leaf of the own namespace, which can correlate."""
    return ProgramStatus(ProgramRef(OWN, "app", "p"))


def parts() -> Iterator[Part]:
    """One for each field of a reference, and for each place of a trigger within another."""
    for kind in (*_members(Leaf), Per):
        for field in _references(kind):
            yield Part(f"{kind.__name__}.{field}", _kind(kind, field), trigger=_made(kind, field))
    for kind in _members(Constraint):
        for field in _references(kind):
            yield Part(f"{kind.__name__}.{field}", _kind(kind, field), constraint=_made(kind, field))
    for kind in _members(Executable):
        for field in _references(kind):
            yield Part(f"{kind.__name__}.{field}", _kind(kind, field), executable=_made(kind, field))
    awaited = Expectation(ExpectationRef(OWN, "app", "e"), DatasetRef(FOREIGN, "thing"), by=None)
    yield Part("Expectation.subject", SharedKind.DATASET, expectation=awaited)
    foreign = ProgramStatus(ProgramRef(FOREIGN, "pay", "payroll"))
    for kind in (*_members(Composite), *_members(Timed), Per):
        for field, hint in _hints(kind):
            if set(_members(EventLeaf)) <= set(_parts(hint)):
                several = typing.get_origin(hint) is tuple
                places = [(own_leaf(), foreign), (foreign, own_leaf())] if several else [foreign]
                for number, place in enumerate(places):
                    trigger = _made(kind, None, **{field.name: place})
                    assert foreign in leaves(trigger)
                    yield Part(f"{kind.__name__}.{field.name}[{number}]", SharedKind.PROGRAM, trigger=trigger)


def foreign_name(kind: SharedKind | Sent) -> str:
    """The name that the parts of this kind use."""
    return "pay.payroll" if kind is SharedKind.PROGRAM else "thing"


def _references(kind: type) -> list[str]:
    found = [field.name for field, _ in _hints(kind)]
    return [name for name in found if isinstance(CLASSIFIED.get(f"{kind.__name__}.{name}"), SharedKind | Sent)]


def _kind(kind: type, field: str) -> SharedKind | Sent:
    found = CLASSIFIED[f"{kind.__name__}.{field}"]
    assert isinstance(found, SharedKind | Sent)
    return found


def _made(kind: type, named: str | None = None, **given: Any) -> Any:
    """One of the class with plain values; `named` has a name of `FOREIGN`."""
    values = {**given, **_BESIDE.get(f"{kind.__name__}.{named}", {})}
    for field, hint in _hints(kind):
        if field.name in values or not field.init:
            continue
        if field.name == named or (field.default is MISSING and field.default_factory is MISSING):
            values[field.name] = _value(list(_parts(hint)), hint)
    return kind(**values)


def _value(found: list[Any], hint: Any) -> Any:
    if set(_members(EventLeaf)) <= set(found):
        return (own_leaf(), own_leaf()) if typing.get_origin(hint) is tuple else own_leaf()
    if typing.get_origin(hint) is tuple:
        return ("day",)
    for part in found:
        if part is ProgramRef:
            return ProgramRef(FOREIGN, "pay", "payroll")
        if part in (DatasetRef, StreamRef, EventName):
            return part(FOREIGN, "thing")
        if part is int:
            return 1
        if part is timedelta:
            return timedelta(hours=1)
        if part is datetime:
            return datetime.fromisoformat("2026-01-01T00:00:00Z")
        if isinstance(part, type) and issubclass(part, Enum):
            return next(iter(part))
        if part is str:
            return "thing"
    raise AssertionError(f"no example of {hint}")


def _hints(kind: type) -> Iterator[tuple[Field[Any], Any]]:
    hints = typing.get_type_hints(kind, localns={"Trigger": Trigger})
    yield from ((field, hints[field.name]) for field in fields(kind))


def _parts(hint: Any) -> Iterator[Any]:
    """The plain types within a type."""
    arguments = typing.get_args(hint)
    if not arguments:
        yield hint
    for each in arguments:
        yield from _parts(each)


def _members(union: Any) -> list[type]:
    return list(_parts(union)) if isinstance(union, types.UnionType) else [union]
