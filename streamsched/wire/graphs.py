"""Graphs, their nodes, and what is asked of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.graph.pictures.picture import Arrow, Box, Picture
from streamsched.codec.graph.task import task_to_json
from streamsched.codec.schema.apps import DEFINITIONS
from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import integer, object_by_name, one_of
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.jobs.run import RunState

_TASK: Final = About("report")
_ID: Final = About("20260301")
_JOB: Final = About("default.flights.weekly.1.1")
_STATES: Final = object_by_name(integer(1), "COMPLETED")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedNode:
    """A node with its state; None: it does not exist."""

    task: Annotated[str, _TASK]
    job_id: Annotated[str, _ID]
    state: NodeState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingNode(NamedNode):
    """A node that may run nothing. `awaits`: then what completes it."""

    awaits: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingNode(NamedNode):
    """A node whose end holds others up."""

    job: Annotated[str | None, _JOB]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNode(NamedNode):
    """A node in a list. `run_state`: of a queued one."""

    run_state: RunState | None
    job: Annotated[str | None, _JOB]
    round: Annotated[int, About(of="node.round")]
    reason: str
    created_at: datetime
    changed_at: datetime


NODE: Final = JsonShape(NamedNode)
AWAITING: Final = JsonShape(AwaitingNode)
HOLDING: Final = JsonShape(HoldingNode)
LISTED: Final = JsonShape(ListedNode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOfParents:
    """Alternative parents of a node, and those that are missing: the first, and how many."""

    group: Annotated[str, About("default")]
    parents: int
    missing: int
    lacks: Annotated[Sequence[AwaitingNode], About(shape=AWAITING)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedNode(HoldingNode):
    """A node with what it waits for. What one that was never asked for has not is null.

    Attributes:
        roots: the first of the ancestors whose own ends hold it up, of `roots_in_all`; more when not `all_roots`.
    """

    awaits: str | None
    run_state: RunState | None = None
    round: int | None = None
    created_at: datetime | None = None
    changed_at: datetime | None = None
    valid: bool
    groups: Annotated[Sequence[GroupOfParents], About(shape=JsonShape(GroupOfParents))]
    roots: Annotated[Sequence[HoldingNode], About(shape=HOLDING)]
    roots_in_all: Annotated[int, About(0)]
    all_roots: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTask:
    """A task, and how many of its nodes are in each state."""

    name: Annotated[str, _TASK]
    definition: Annotated[
        TaskTemplate, About(spread=True, shape=ByHand(keep_json, task_to_json, DEFINITIONS["StoredTask"]))
    ]
    nodes: Annotated[Mapping[str, int], About(schema=_STATES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphState:
    """A graph; parents are before children."""

    app: Annotated[str, About("default.flights")]
    generation: int
    tasks: Annotated[Sequence[GraphTask], About(shape=JsonShape(GraphTask))]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What a submission does: nodes that it makes and resets, by task.

    Attributes:
        ended: the first of those that have ended and do not run again, of `ended_in_all`; `awaited` likewise.
        jobs: that were made at once; None: nothing was stored.
        downstream: of a rerun: what runs again besides, by task and state as it is before.
    """

    task: Annotated[str, _TASK]
    submitted: int
    downstream: Annotated[Mapping[str, Mapping[str, int]] | None, About(schema=object_by_name(_STATES, "report"))] = (
        None
    )
    created: Annotated[Mapping[str, int], About(1, key="report")]
    reset: Annotated[Mapping[str, int], About(0, key="report")]
    joined: Annotated[int, About(0)]
    skipped: Annotated[int, About(0)]
    ended: Annotated[Sequence[NamedNode], About(shape=NODE)]
    ended_in_all: Annotated[int, About(0)]
    awaited: Sequence[str]
    awaited_in_all: Annotated[int, About(0)]
    jobs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledNodes:
    """What became of nodes that were cancelled: jobs, and how many waited, had ended, and were never asked for."""

    failed: int
    cancelled: Annotated[Sequence[str], _JOB]
    running: Annotated[Sequence[str], _JOB]
    ended: Annotated[int, About(0)]
    unknown: Annotated[int, About(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSubmission:
    """Job ids of a task that run: by name, or combinations of values of their components."""

    task: Annotated[str, _TASK]
    job_ids: Annotated[Sequence[str], _ID] = ()
    values: Annotated[Mapping[str, Sequence[str]], About("AA", key="client")] = field(
        default_factory=dict[str, Sequence[str]]
    )
    ranges: Annotated[Mapping[str, str], About("20140101..20140131", key="date")] = field(
        default_factory=dict[str, str]
    )
    all: Annotated[Sequence[str], About("client")] = ()
    again: Annotated[bool, About(False)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRerun:
    """Nodes that run again."""

    task: Annotated[str, _TASK]
    job_ids: Annotated[Sequence[str], About("20260301", minItems=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCancellation:
    """Nodes that shall not run."""

    task: Annotated[str, _TASK]
    job_ids: Annotated[Sequence[str], _ID] = ()
    reason: Annotated[str, REASON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AncestryEdge:
    """A parent and a child by their places in the list of nodes."""

    parent: Annotated[int, About(1)]
    child: Annotated[int, About(0)]
    group: Annotated[str, About("default")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AncestryState:
    """A node and its ancestors, nearest first. `hidden`: parents that were left out."""

    nodes: Annotated[Sequence[AwaitingNode], About(shape=AWAITING)]
    edges: Annotated[Sequence[AncestryEdge], About(shape=JsonShape(AncestryEdge))]
    hidden: Annotated[int, About(0)]


EXPLAINED: Final = JsonShape(ExplainedNode, "Node")
GRAPH: Final = JsonShape(GraphState, "Graph")
PLAN: Final = JsonShape(NodePlan, sometimes=("downstream",))
CANCELLED: Final = JsonShape(CancelledNodes)
SUBMISSION: Final = JsonShape(NodeSubmission)
SUBMITTED: Final = NamedSchema(
    "NodeSubmission",
    lambda: {**SUBMISSION.body_schema(), "examples": [{"task": "report", "jobIds": ["20260301"]}]},
)
RERUN: Final = JsonShape(NodeRerun)
CANCELLATION: Final = JsonShape(NodeCancellation)
ANCESTRY: Final = JsonShape(AncestryState)
PICTURE: Final = JsonShape(
    Picture,
    about={
        "title": About("default.flights"),
        "boxes": About(name="nodes", shape=JsonShape(Box, outside=("colour",), about={"title": _TASK})),
        "arrows": About(
            name="edges",
            shape=JsonShape(
                Arrow, about={"label": About("default", name="groups"), "dashed": About(False, name="alternative")}
            ),
        ),
    },
)
DRAWN: Final = NamedSchema(
    "Picture",
    lambda: one_of(PICTURE.answer_schema(), ANCESTRY.answer_schema(), about="Nodes and edges."),
)
