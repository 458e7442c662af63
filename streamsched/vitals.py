"""Vital signs of a process: whether it lives, whether it can do its work, what it counts. Probes and Prometheus ask for
them (`api/health.py`); nothing of ours waits for the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Final

from streamsched.domain.errors import StreamschedError
from streamsched.ports.broker import Broker
from streamsched.store.gauges import PostgresGauges
from streamsched.stream.watchdog import Watchdog
from streamsched.stream.worker import Worker
from streamsched.telemetry.metrics import Metrics

#: How long an answer may take, in seconds.
_READY_WITHIN: Final = 3.0
#: A shard without a sign of life for this part of what makes it stuck is not ready.
_QUIET: Final = 0.5
_NOT_CONSUMING: Final = frozenset({"starting", "pausing"})

Question = Callable[[], Coroutine[Any, Any, object]]


class Vitals:
    """Of one process, in whatever roles. What is well is None, what is not says why."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self._questions: dict[str, Question] = {}
        self._worker: Worker | None = None
        self._watchdog: Watchdog | None = None

    def stands_on(self, what: str, question: Question) -> None:
        """It can do its work only while `question` is answered. Before the first such word it has not begun."""
        self._questions[what] = question

    def works(self, worker: Worker, watchdog: Watchdog | None) -> None:
        """This worker is in it now, instead of any before."""
        self._worker, self._watchdog = worker, watchdog

    def live(self) -> Mapping[str, str | None]:
        """Whether it should be left alone. Who is asked answers on the event loop, so a blocked loop gives none."""
        silent, patience = self._silent()
        stuck = {name: f"stuck for {seconds:.0f} s" for name, seconds in silent.items() if seconds >= patience}
        return {"loop": None, **stuck}

    async def ready(self) -> Mapping[str, str | None]:
        """What it stands on, and each shard that it holds."""
        if not self._questions:
            return {"process": "has not begun: it waits for its database and its log"}
        answers = await asyncio.gather(*(_wrong(question()) for question in self._questions.values()))
        return {**dict(zip(self._questions, answers, strict=True)), **self._shards()}

    def measure(self) -> None:
        """Takes the measures of the shards it holds."""
        signs = {} if self._worker is None else self._worker.signs()
        by_shard = [({"shard": str(number)}, each) for number, each in sorted(signs.items())]
        replace = self.metrics.replace
        replace("shard_consuming", [(label, each.doing not in _NOT_CONSUMING) for label, each in by_shard])
        replace("shard_turns", [(label, each.turns) for label, each in by_shard])
        replace("shard_records", [(label, each.records) for label, each in by_shard])
        replace("shard_rows", [(label, each.rows) for label, each in by_shard])
        replace("shard_schedules_in_error", [(label, each.halted) for label, each in by_shard])
        replace("shard_recovery_seconds", [(label, each.recovery_s) for label, each in by_shard])

    def _shards(self) -> Mapping[str, str | None]:
        if self._worker is None:
            return {}
        silent, patience = self._silent()
        said: dict[str, str | None] = {"membership": None if self._worker.joined else "takes no part among the workers"}
        for number, signs in sorted(self._worker.signs().items()):
            name, doing = f"shard {number}", signs.doing
            quiet = silent.get(name, 0.0)
            if doing in _NOT_CONSUMING:
                said[name] = f"is {doing}"
            else:
                said[name] = f"no sign of life for {quiet:.0f} s while {doing}" if quiet > _QUIET * patience else None
        return said

    def _silent(self) -> tuple[Mapping[str, float], float]:
        return ({}, 0.0) if self._watchdog is None else (self._watchdog.silent_s(), self._watchdog.patience_s)


async def measure_installation(metrics: Metrics, gauges: PostgresGauges, broker: Broker, *, now: datetime) -> None:
    """Takes the measures of all of it, which any process may take.

    Raises:
        UnavailableError: database or log are away.
    """
    measures = await gauges.measure(now=now)
    ends = await broker.ends(list(measures.positions))
    metrics.replace("jobs_waiting", [({"state": state}, amount) for state, amount in measures.jobs.items()])
    metrics.replace("runs_active", [({"state": state}, amount) for state, amount in measures.runs.items()])
    metrics.replace("schedules", [({"enabled": str(on).lower()}, n) for on, n in measures.schedules.items()])
    metrics.replace("outbox_records", [({}, measures.outbox)])
    overdue = {"ticks": measures.ticks, "wake-ups": measures.wakes}
    metrics.replace("timers_overdue", [({"kind": kind}, amount) for kind, amount in overdue.items()])
    metrics.replace("timers_late_seconds", [({}, measures.late)])
    given = measures.verdicts.items()
    metrics.replace("verdicts", [({"verdict": verdict, "late": late}, n) for (verdict, late), n in given])
    metrics.replace("shards_leased", [({}, measures.shards)])
    lags = {part: end - measures.positions[part] for part, end in ends.items()}
    metrics.replace(
        "intake_lag_records",
        [({"topic": part.topic, "partition": str(part.partition)}, lag) for part, lag in lags.items()],
    )


async def _wrong(question: Coroutine[Any, Any, object]) -> str | None:
    """What is wrong with something that is asked; None when it answers."""
    try:
        async with asyncio.timeout(_READY_WITHIN):
            await question
    except TimeoutError:
        return f"does not answer within {_READY_WITHIN:g} s"
    except StreamschedError as exc:
        return str(exc)
    return None
