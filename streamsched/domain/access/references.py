"""What definitions refer to outside their own namespace, and who may make them do so.

A subscription to events of another namespace needs the permission `listen` there, or a grant by its owner
(`NamespaceGrant`). Groups and pools have names of the whole installation: a name belongs to the namespace that declared
it first, and another one needs a grant to use it. Published events and queues need `emit`. Everything else that a
definition names is of its own app or namespace, or permitted by the installation (profiles, bundles, secrets, clusters,
plug-ins); tasks of a graph have parents of their own app only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from streamsched.domain.access.grant import ALLOWED, Allowed, Caller, Denied
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind, covering_grant
from streamsched.domain.access.permission import Permission
from streamsched.domain.constraints.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Load
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.schedule import EnqueueJob, HttpJob, Program, PublishJob, Schedule
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Partitions,
    ProgramStatus,
    Quiet,
    Silence,
    SinceLastRun,
    StreamGrowth,
    Then,
    Total,
    Trigger,
    Unless,
    Within,
)

#: A caller without roles: only grants decide.
WITHOUT_ROLES: Final = Caller("a caller without roles", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Events of another namespace, or of its own: those of a dataset, a stream, a custom event, or ends of a program.

    Attributes:
        name: without the namespace; of a program, `app.program`.
        path: of the field.
        details: whether a match or a key reads the arguments of a program's runs.
    """

    kind: SharedKind
    namespace: str
    name: str
    path: str
    details: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedName:
    """A group or pool."""

    kind: SharedKind
    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An event that a program publishes."""

    event: EventName
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUse:
    """A queue in which a program makes tasks; queues belong to no namespace."""

    queue: str
    path: str


ForeignReference = Subscription | SharedName
Reference = ForeignReference | Publication | QueueUse


@dataclass(frozen=True, slots=True)
class Recorded:
    """The reference is permitted by the caller's own roles: this grant is to be stored, so that the owner sees it."""

    grant: NamespaceGrant


ReferenceVerdict = Allowed | Recorded | Denied


def schedule_references(schedule: Schedule, path: str = "$") -> Iterator[Reference]:
    """What the trigger and the constraints refer to."""
    yield from _subscriptions(schedule.trigger, f"{path}.trigger", correlates=False)
    for index, constraint in enumerate(schedule.constraints):
        yield from _of_constraint(constraint, f"{path}.constraints[{index}]")


def program_references(program: Program, path: str = "$") -> Iterator[Reference]:
    """What the program refers to."""
    match program.executable:
        case PublishJob(event=event):
            yield Publication(event=event, path=f"{path}.event")
        case EnqueueJob(queue=queue):
            yield QueueUse(queue=queue, path=f"{path}.queue")
        case SparkJob() | BashJob() | PythonJob() | HttpJob() | ArrivalJob():
            return
        case _:
            assert_never(program.executable)


def expectation_references(expectation: Expectation, path: str = "$") -> Iterator[Reference]:
    """What the expectation refers to."""
    if isinstance(expectation.subject, DatasetRef):
        yield _subscription(SharedKind.DATASET, expectation.subject, f"{path}.dataset")


def app_references(
    programs: Iterable[Program], schedules: Iterable[Schedule], expectations: Iterable[Expectation] = ()
) -> Iterator[Reference]:
    """What the parts of an app refer to, with paths as in its definition."""
    for index, expectation in enumerate(expectations):
        yield from expectation_references(expectation, f"$.expectations[{index}]")
    for index, program in enumerate(programs):
        yield from program_references(program, f"$.programs[{index}]")
    for index, schedule in enumerate(schedules):
        yield from schedule_references(schedule, f"$.schedules[{index}]")


@dataclass(frozen=True, slots=True)
class KnownGrants:
    """What is stored for the references of a definition.

    Attributes:
        owners: of the groups and pools that have one.
        grants: all that the owners of what it refers to have given to its namespace, by owner.
    """

    owners: Mapping[tuple[SharedKind, str], str] = field(default_factory=dict[tuple[SharedKind, str], str])
    grants: Mapping[str, Sequence[NamespaceGrant]] = field(default_factory=dict[str, Sequence[NamespaceGrant]])

    def owner(self, reference: ForeignReference) -> str | None:
        """The namespace of what is referred to; None of a group or pool without an owner."""
        if isinstance(reference, Subscription):
            return reference.namespace
        return self.owners.get((reference.kind, reference.name))


def find_foreign_references(references: Iterable[Reference], namespace: str) -> list[ForeignReference]:
    """Those that stored grants decide about: subscriptions to other namespaces, groups and pools."""
    return [
        each
        for each in references
        if isinstance(each, SharedName) or (isinstance(each, Subscription) and each.namespace != namespace)
    ]


def collect_names(references: Iterable[ForeignReference]) -> tuple[set[str], set[tuple[SharedKind, str]]]:
    """The namespaces that the references name, and the groups and pools."""
    named, shared = set[str](), set[tuple[SharedKind, str]]()
    for each in references:
        if isinstance(each, Subscription):
            named.add(each.namespace)
        else:
            shared.add((each.kind, each.name))
    return named, shared


def judge_all(
    references: Iterable[ForeignReference], caller: Caller, namespace: str, known: KnownGrants
) -> Sequence[NamespaceGrant] | Denied:
    """The grants to store so that all are permitted, each once; or why one is not."""
    recorded: dict[tuple[str, SharedKind, str], NamespaceGrant] = {}
    for each in references:
        owner = known.owner(each)
        if owner is None:
            continue
        verdict = judge(each, caller, namespace, owner, known.grants.get(owner, ()))
        if isinstance(verdict, Denied):
            return verdict
        if isinstance(verdict, Recorded):
            key = (owner, each.kind, each.name)
            recorded[key] = max(recorded.get(key, verdict.grant), verdict.grant, key=lambda grant: grant.details)
    return list(recorded.values())


def judge(
    reference: ForeignReference, caller: Caller, namespace: str, owner: str, grants: Iterable[NamespaceGrant]
) -> ReferenceVerdict:
    """Whether the caller may let a definition of `namespace` refer to something of `owner`, by the grants that `owner`
    has given to the namespace.

    What was used before grants existed stays permitted while it is pending, without details. A refusal holds against
    the caller's roles in the other namespace too.
    """
    if owner == namespace:
        return ALLOWED
    known = covering_grant(reference.kind, reference.name, grants)
    if known is not None and known.state is GrantState.REFUSED:
        return Denied(_refusal(reference, namespace, owner, f"namespace '{owner}' has refused it"))
    needs_details = isinstance(reference, Subscription) and reference.details
    if known is not None and known.state is GrantState.GRANTED and (known.details or not needs_details):
        return ALLOWED
    permission = Permission.LISTEN if isinstance(reference, Subscription) else Permission.DEPLOY
    verdict = caller.may(permission, owner)
    details = isinstance(caller.may(Permission.VIEW, owner), Allowed)
    if isinstance(verdict, Allowed) and (details or not needs_details):
        given = NamespaceGrant(
            owner=owner,
            kind=reference.kind,
            name=reference.name,
            grantee=namespace,
            state=GrantState.GRANTED,
            details=details and isinstance(reference, Subscription),
            by=caller.name,
        )
        return Recorded(given)
    if known is not None and known.state is GrantState.PENDING:
        return ALLOWED
    if known is not None:
        why = f"its match or key reads arguments of runs, and the grant of namespace '{owner}' is without details"
        return Denied(_refusal(reference, namespace, owner, why))
    missing = verdict.reason if isinstance(verdict, Denied) else f"{caller.name} may not view '{owner}'"
    return Denied(_refusal(reference, namespace, owner, f"{missing}, and that namespace has given no grant"))


def is_used(grant: NamespaceGrant, schedule: Schedule) -> bool:
    """Whether the schedule refers to something that the grant is about. Of a group or pool, its owner is that of the
    grant.
    """
    return any(
        isinstance(each, Subscription | SharedName)
        and grant.covers(each.kind, each.name)
        and (isinstance(each, SharedName) or each.namespace == grant.owner)
        for each in schedule_references(schedule)
    )


def _refusal(reference: ForeignReference, namespace: str, owner: str, why: str) -> str:
    named = f"{owner}.{reference.name}" if isinstance(reference, Subscription) else reference.name
    details = " --details" if isinstance(reference, Subscription) and reference.details else ""
    command = f"streamsched grant give {owner} {reference.kind} {reference.name} {namespace}{details}"
    return f"{reference.path}: {reference.kind} {named} is of namespace '{owner}': {why}; ask its owner for `{command}`"


def _subscriptions(trigger: Trigger, path: str, *, correlates: bool) -> Iterator[Reference]:
    match trigger:
        case AllOf(triggers=below) | AnyOf(triggers=below) | AtLeast(triggers=below):
            for index, each in enumerate(below):
                yield from _subscriptions(each, f"{path}.triggers[{index}]", correlates=correlates)
        case Then(first=first, second=second):
            yield from _subscriptions(first, f"{path}.first", correlates=correlates)
            yield from _subscriptions(second, f"{path}.second", correlates=correlates)
        case Unless(wanted=wanted, veto=veto):
            yield from _subscriptions(wanted, f"{path}.trigger", correlates=correlates)
            yield from _subscriptions(veto, f"{path}.veto", correlates=correlates)
        case Within(trigger=only) | Quiet(trigger=only):
            yield from _subscriptions(only, f"{path}.trigger", correlates=correlates)
        case Per(trigger=only, run_of=ProgramRef() as ancestor):
            yield _of_program(ancestor, f"{path}.runOf", details=False)
            yield from _subscriptions(only, f"{path}.trigger", correlates=False)
        case Per(trigger=only):
            yield from _subscriptions(only, f"{path}.trigger", correlates=True)
        case Silence(of=only):
            yield from _subscriptions(only, f"{path}.of", correlates=correlates)
        case _:
            yield from _of_leaf(trigger, path, correlates=correlates)


def _of_leaf(leaf: Leaf, path: str, *, correlates: bool) -> Iterator[Reference]:
    match leaf:
        case Partitions(dataset=ref) | Total(dataset=ref):
            yield _subscription(SharedKind.DATASET, ref, f"{path}.dataset")
        case StreamGrowth(stream=ref):
            yield _subscription(SharedKind.STREAM, ref, f"{path}.streamId")
        case CustomEvent(name=ref):
            yield _subscription(SharedKind.EVENT, ref, f"{path}.event")
        case ProgramStatus(program=program, match=match):
            yield _of_program(program, f"{path}.programId", details=correlates or bool(match))
        case Cron() | Every() | At() | SinceLastRun():
            return
        case _:
            assert_never(leaf)


def _of_program(program: ProgramRef, path: str, *, details: bool) -> Subscription:
    name = f"{program.app}.{program.name}"
    return Subscription(kind=SharedKind.PROGRAM, namespace=program.namespace, name=name, path=path, details=details)


def _subscription(kind: SharedKind, ref: DatasetRef | StreamRef | EventName, path: str) -> Reference:
    return Subscription(kind=kind, namespace=ref.namespace, name=ref.name, path=path)


def _of_constraint(constraint: Constraint, path: str) -> Iterator[Reference]:
    match constraint:
        case Group(name=name):
            yield SharedName(kind=SharedKind.GROUP, name=name, path=f"{path}.group")
        case Pool(name=name):
            yield SharedName(kind=SharedKind.POOL, name=name, path=f"{path}.pool")
        case Rate(group=str(name)):
            yield SharedName(kind=SharedKind.GROUP, name=name, path=f"{path}.group")
        case Rate() | Concurrency() | Delay() | LastRun() | Load() | PlugIn() | TimeWindow():
            return
        case _:
            assert_never(constraint)
