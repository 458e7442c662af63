"""Runs as rows: what the transactions that start and end them read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.store.sql import Select, queries

SQL: Final = queries("runs/ending")


class StoredRun(NamedTuple):
    """A run, with its job and schedule; None without one. `ready`: the satisfaction of its job, as JSON."""

    id: str
    state: str
    job: str | None
    attempt: int
    program: str
    executable: Any
    arguments: Mapping[str, str]
    runner: str | None
    heartbeat_at: datetime | None
    stop_requested: str | None
    muted: bool
    driver: Any
    taken_over: bool
    schedule: str | None
    generation: int
    job_state: str | None
    ready: str | None
    ancestors: Any
    job_created_at: datetime


class LiveRun(NamedTuple):
    """A run that has not ended, as batches read it: what its status events and requested stops say."""

    id: str
    program: str
    arguments: Mapping[str, str]
    state: str
    stop_requested: str | None
    stop_at_once: bool
    muted: bool
    job: str | None
    schedule: str | None
    ancestors: Any
    job_created_at: datetime


class StartedRun(NamedTuple):
    """A run that its launcher had started, with its schedule as it is now (`current`: its generation); None without."""

    id: str
    job: str | None
    attempt: int
    heartbeat_at: datetime
    stop_requested: str | None
    schedule: str
    generation: int
    current: int | None
    admits: bool | None
    deleted_at: datetime | None
    definition: Any


class LockedSchedule(NamedTuple):
    """A schedule as it is now, locked against changes."""

    definition: Any
    generation: int
    oldest_valid_generation: int
    admits: bool
    deleted_at: datetime | None


RUN: Final = Select(SQL["state"], StoredRun)
LOCK_SCHEDULE: Final = Select(SQL["lock_schedule"], LockedSchedule)
