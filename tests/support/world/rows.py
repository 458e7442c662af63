"""Rows as tests read them: each has the columns that tests ask for, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamsched.domain.graph.node import NodeState
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState


@dataclass(frozen=True, slots=True)
class StoredJob:
    id: str
    schedule: str | None
    generation: int
    sequence: int
    program: str | None
    state: JobState
    reason: str
    satisfied_at: datetime
    next_check_at: datetime | None
    ready: dict[str, Any]
    joined: str | None
    ended_at: datetime | None
    submitted: bool
    backfill: str | None
    spans: str | None


@dataclass(frozen=True, slots=True)
class StoredRun:
    id: str
    job: str | None
    attempt: int
    program: str
    executable: dict[str, Any]
    arguments: dict[str, Any]
    state: RunState
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    deadline_at: datetime | None
    runner: str | None
    stop_requested: str | None
    muted: bool
    spans: str | None


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """What a run holds of a group."""

    group_name: str
    run: str
    weight: int


@dataclass(frozen=True, slots=True)
class StoredNode:
    """`groups`: four numbers for each group of parents."""

    task: str
    job_id: str
    state: NodeState
    job: str | None
    groups: list[int]
    round: int
    generation: int
    stuck: list[str]
    unreported: bool


@dataclass(frozen=True, slots=True)
class StoredTask:
    queue: str
    lane: str
    key: str
    state: str
    due_at: datetime
    data: bytes
    content_type: str
    fired: int
    error: str


@dataclass(frozen=True, slots=True)
class HistoryLine:
    at: datetime
    subject_kind: str
    subject: str
    action: str
    reason: str
