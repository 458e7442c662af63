"""What the client returns, beside shapes of `streamsched.wire`, which have all members of an answer. Here `data` is the
whole answer of the API as JSON; the attributes are its most used members, with names and times as Python's. Times are
UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

#: States of a run after which nothing more happens to it.
ENDED: Final = frozenset({"COMPLETED", "FAILED", "KILLED", "LOST"})


@dataclass(frozen=True, slots=True)
class DeployedSchedule:
    """A schedule.

    Attributes:
        state: `enabled`, `paused`, `disabled` or `error`.
        generation: version of its definition and state.
        etag: of this reading, for `put_schedule`; empty in lists.
    """

    id: str
    program: str
    state: str
    generation: int
    etag: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any], etag: str = "") -> Self:
        return cls(data["id"], data["program"], data["state"], data["generation"], etag, data)


@dataclass(frozen=True, slots=True)
class AcceptedEvents:
    """Events that the log has acknowledged: how many, their ids, and the event keys that no schedule listens to."""

    events: int
    ids: Sequence[str]
    unheard: Sequence[str]


@dataclass(frozen=True, slots=True)
class MadeJob:
    """The job that a request made. `repeated`: an earlier request with the same key had made it."""

    id: str
    repeated: bool

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["job"], data["repeated"])


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        outcome: the state of its last run; None without one.
        runs: their ids, oldest first.
    """

    id: str
    schedule: str | None
    state: str
    reason: str | None
    created_at: datetime
    outcome: str | None
    runs: Sequence[str]
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        made = datetime.fromisoformat(data["createdAt"])
        return cls(
            data["id"],
            data["schedule"],
            data["state"],
            data["reason"],
            made,
            data["outcome"],
            tuple(data["runs"] or ()),
            data,
        )


@dataclass(frozen=True, slots=True)
class JobReason:
    """Why a job is in its state. `earliest`: when that can change at the earliest, if it is known."""

    job: str
    state: str
    summary: str
    earliest: datetime | None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["job"], data["state"], data["summary"], moment(data["earliest"]), data)


@dataclass(frozen=True, slots=True)
class Run:
    """A run. `job`: None of one that was started without a job."""

    id: str
    job: str | None
    program: str
    state: str
    reason: str | None
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime | None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            data["id"],
            data["job"],
            data["program"],
            data["state"],
            data["reason"],
            data["exitCode"],
            moment(data["startedAt"]),
            moment(data["endedAt"]),
            data,
        )


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill. `counts`: its jobs by what became of them."""

    id: str
    schedule: str
    state: str
    counts: Mapping[str, int]
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["id"], data["schedule"], data["state"], data["counts"], data)


@dataclass(frozen=True, slots=True)
class Decision:
    """What happened to a job or a run.

    Attributes:
        number: grows with each decision; `after` of a later reading.
        action: such as `job.waits`; `reason`: why.
        state: that the job or run has entered; None: it stays as it was.
    """

    number: int
    at: datetime
    subject: str
    action: str
    state: str | None
    reason: str
    schedule: str | None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        made = datetime.fromisoformat(data["at"])
        return cls(
            data["number"], made, data["subject"], data["action"], data["state"], data["reason"], data["schedule"], data
        )


def moment(text: str | None) -> datetime | None:
    """An instant of an answer."""
    return None if text is None else datetime.fromisoformat(text)
