"""The health of a process: liveness, readiness and metrics, served by `api/health.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from operator import itemgetter
from typing import Any, Final, Protocol

from streamsched.domain.errors import StreamschedError
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.shard_stats import ShardStats

#: Seconds within which a dependency must answer.
_READY_WITHIN: Final = 3.0
#: A shard without progress for this part of the watchdog's patience is not ready.
_QUIET: Final = 0.5
_NOT_CONSUMING: Final = frozenset({"starting", "pausing"})

Question = Callable[[], Coroutine[Any, Any, object]]


class WorkerStatus(Protocol):
    """The part of a worker that health uses."""

    @property
    def is_member(self) -> bool:
        """Whether it is a member of the workers."""
        ...

    def shard_stats(self) -> Mapping[int, ShardStats]:
        """By shard."""
        ...


class ProgressWatch(Protocol):
    """The part of a watchdog that health uses: seconds without progress by loop or shard, and the limit."""

    @property
    def patience_s(self) -> float:
        """Seconds without progress after which a shard counts as stuck."""
        ...

    def silent_s(self) -> Mapping[str, float]:
        """For how many seconds the loop and each shard have made no progress, by name."""
        ...


class DatabaseClock(Protocol):
    """The part of the clock that health uses."""

    @property
    def lead(self) -> timedelta:
        """How far the database's clock is ahead of the time that the process goes by."""
        ...

    @property
    def doubt(self) -> str | None:
        """What is wrong with it; None: nothing."""
        ...


class ProcessHealth:
    """The health of one process with any roles: by name of a check None, or why it is unhealthy."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self._questions: dict[str, Question] = {}
        self._worker: WorkerStatus | None = None
        self._watchdog: ProgressWatch | None = None
        self._clock: DatabaseClock | None = None

    def require(self, what: str, question: Question) -> None:
        """The process is ready only while `question` succeeds. Before the first call it counts as starting."""
        self._questions[what] = question

    def attach_worker(self, worker: WorkerStatus, watchdog: ProgressWatch | None) -> None:
        """Sets the worker of this process, replacing a former one."""
        self._worker, self._watchdog = worker, watchdog

    def attach_clock(self, clock: DatabaseClock) -> None:
        """Sets the clock of the database."""
        self._clock = clock

    def liveness(self) -> Mapping[str, str | None]:
        """Liveness: by name None, or since when the loop or a shard is stuck. A blocked event loop gives no answer."""
        silent, patience = self._silence()
        stuck = {name: f"stuck for {seconds:.0f} s" for name, seconds in silent.items() if seconds >= patience}
        return {"loop": None, **stuck}

    async def readiness(self) -> Mapping[str, str | None]:
        """Readiness: of each dependency, and of each shard held."""
        if not self._questions:
            return {"process": "is starting: it waits for its database, its schema or its log"}
        answers = await asyncio.gather(*(_failure_reason(question()) for question in self._questions.values()))
        return {**dict(zip(self._questions, answers, strict=True)), **self._shards()}

    def remarks(self) -> Mapping[str, str | None]:
        """What a person should know of and what makes no process unready: with a clock in doubt all go on."""
        return {} if self._clock is None else {"clock": self._clock.doubt}

    def measure(self) -> None:
        """Sets the metrics of the clock, and of the shards held."""
        if self._clock is not None:
            self.metrics.replace("clock_ahead_seconds", [({}, self._clock.lead.total_seconds())])
        stats = {} if self._worker is None else self._worker.shard_stats()
        by_shard = [({"shard": str(number)}, each) for number, each in sorted(stats.items())]
        replace = self.metrics.replace
        replace("shard_consuming", [(label, each.doing not in _NOT_CONSUMING) for label, each in by_shard])
        replace("shard_turns", [(label, each.turns) for label, each in by_shard])
        replace("shard_records", [(label, each.records) for label, each in by_shard])
        replace("shard_rows", [(label, each.rows) for label, each in by_shard])
        replace("shard_schedules_in_error", [(label, each.halted) for label, each in by_shard])
        replace("shard_keys_lost", [(label, each.lost_keys) for label, each in by_shard])
        replace("shard_events_refused", [(label, each.refused) for label, each in by_shard])
        replace("shard_unread_deleted", [(label, each.unread_deleted) for label, each in by_shard])
        waiting = [(name, since) for each in stats.values() for name, since in each.waiting_since.items()]
        first = {name: since / 1000 for name, since in sorted(waiting, key=itemgetter(1), reverse=True)}
        replace("backlog_first_timestamp_seconds", [({"namespace": name}, since) for name, since in first.items()])
        replace("shard_recovery_seconds", [(label, each.recovery_s) for label, each in by_shard])

    def _shards(self) -> Mapping[str, str | None]:
        if self._worker is None:
            return {}
        silent, patience = self._silence()
        found: dict[str, str | None] = {
            "membership": None if self._worker.is_member else "is not a member of the workers"
        }
        for number, stats in sorted(self._worker.shard_stats().items()):
            name, doing = f"shard {number}", stats.doing
            quiet = silent.get(name, 0.0)
            if doing in _NOT_CONSUMING:
                found[name] = f"is {doing}"
            else:
                found[name] = f"no progress for {quiet:.0f} s while {doing}" if quiet > _QUIET * patience else None
        return found

    def _silence(self) -> tuple[Mapping[str, float], float]:
        return ({}, 0.0) if self._watchdog is None else (self._watchdog.silent_s(), self._watchdog.patience_s)


async def _failure_reason(question: Coroutine[Any, Any, object]) -> str | None:
    """Why the question failed; None when it succeeded."""
    try:
        async with asyncio.timeout(_READY_WITHIN):
            await question
    except TimeoutError:
        return f"does not answer within {_READY_WITHIN:g} s"
    except StreamschedError as exc:
        return str(exc)
    return None
