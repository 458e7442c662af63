"""Someone who fills in ticks and keys of generated schedules over HTTP; pauses, resumes and cancels some of it."""

from __future__ import annotations

import asyncio
import random
from calendar import isleap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import product
from typing import Any, Final

import httpx

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.triggers.trigger import Cron, Trigger
from tests.faults.judges.jobs import Stored
from tests.faults.load.generated_schedules import VALUES, GeneratedSchedules, pers_of
from tests.faults.load.patience import ask, ask_once

#: Several hours are one key where they are rolled up to their day.
_ROLLED_UP: Final = "hour"
_WAITING: Final = frozenset({JobState.PENDING_CONSTRAINT, JobState.PENDING_LAUNCH})


@dataclass(slots=True)
class AskedBackfill:
    """A backfill that is asked for, and what has come of it.

    Attributes:
        id: of the backfill.
        schedule: its id.
        span: the marks (see `mark_of`) of the items.
        exact: whether each mark is an item of its own.
        everything: whether also what is known becomes jobs.
        newest: whether the last of the span comes first.
        promised: how many jobs the API said it would have, and how many are left out.
        paused: whether it was asked to pause.
        cancelled: whether its cancellation has returned.
        never: the numbers of the items that waited after that.
    """

    id: str
    schedule: str
    span: frozenset[str]
    exact: bool = True
    everything: bool = True
    muted: bool = False
    newest: bool = False
    max_active: int = 4
    promised: tuple[int, int] = (0, 0)
    paused: bool = False
    cancelled: bool = False
    never: frozenset[int] = frozenset()

    @property
    def path(self) -> str:
        return f"/v1/backfills/{self.id}"


@dataclass(slots=True)
class Backfills:
    """Attributes:
    accepted: id → what the API has accepted.
    contradictions: answers that do not fit an earlier one.
    most_active: id → the most jobs that waited or ran at the same time, of all looks.
    """

    generated: GeneratedSchedules
    rng: random.Random
    client: httpx.AsyncClient
    accepted: dict[str, AskedBackfill] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    most_active: Counter[str] = field(default_factory=Counter)

    @property
    def paused(self) -> frozenset[str]:
        """Those that have been asked to pause; their jobs may have been held."""
        return frozenset(name for name, each in self.accepted.items() if each.paused)

    def invent(self, token: str) -> tuple[AskedBackfill, Mapping[str, Any]]:
        """One of ticks of former years, or of some keys, and the body that asks for it."""
        rng = self.rng
        schedules = list(self.generated.schedules.values())
        clocks = [each for each in schedules if isinstance(each.trigger, Cron)]  # no user changes these
        keyed = [each for each in schedules if each.ref.name.startswith("s") and any(pers_of(each.trigger))]
        schedule = rng.choice(clocks if rng.random() < 0.3 or not keyed else keyed)
        trigger = schedule.trigger
        span, marks, exact = self._ticks(trigger) if isinstance(trigger, Cron) else self._keys(trigger)
        asked = AskedBackfill(
            f"{schedule.ref}.backfill-{token}",
            str(schedule.ref),
            marks,
            exact,
            rng.random() < 0.7,
            rng.random() < 0.3,
            rng.random() < 0.3,
            rng.randint(1, 6),
        )
        only, order = "all" if asked.everything else "missing", "newest" if asked.newest else "oldest"
        return asked, {**span, "only": only, "order": order, "maxActive": asked.max_active, "mute": asked.muted}

    def _ticks(self, trigger: Cron) -> tuple[Mapping[str, Any], frozenset[str], bool]:
        """Of whole years. The expression names seconds of one minute of one day of the year."""
        seconds, minute, hour, day, month, _ = trigger.expression.split()
        last = datetime.now(UTC).year - self.rng.randint(1, 3)
        first = last - self.rng.randint(0, 4)
        marks = frozenset(
            datetime(year, int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC).isoformat()
            for year in range(first, last + 1)
            if (month, day) != ("2", "29") or isleap(year)
            for second in seconds.split(",")
        )
        return {"from": f"{first}-01-01", "to": f"{last}-12-31"}, marks, True

    def _keys(self, trigger: Trigger) -> tuple[Mapping[str, Any], frozenset[str], bool]:
        """All combinations of some values of each column."""
        per = next(pers_of(trigger))
        some = {name: self.rng.sample(VALUES[name], self.rng.randint(1, len(VALUES[name]))) for name in per.by}
        keys = {name: values if self.rng.random() < 0.5 else ",".join(values) for name, values in some.items()}
        marks = (mark_of_columns(dict(zip(some, values, strict=True))) for values in product(*some.values()))
        return {"keys": keys}, frozenset(marks), _ROLLED_UP not in some

    async def accept(self, asked: AskedBackfill, answer: Mapping[str, Any]) -> None:
        """It is accepted; goes on to what is done with it."""
        asked.promised = answer["counts"]["jobs"], answer["counts"]["skipped"]
        self.accepted[asked.id] = asked
        does = self.rng.random()
        await asyncio.sleep(self.rng.uniform(0.0, 1.5))
        if does < 0.4:
            await self._pause(asked)
        if 0.15 <= does < 0.3:
            await self._tell(asked, "resume")
        elif 0.3 <= does < 0.6:
            await self._cancel(asked)

    async def resume_all(self) -> None:
        """Whatever has not ended; a schedule that was disabled has paused its own."""
        for asked in list(self.accepted.values()):
            if not asked.cancelled:
                await self._tell(asked, "resume")

    def look(self, there: Stored) -> None:
        """Notes how many jobs are active. Runs are read after jobs: what runs then has been active before."""
        active = Counter(
            row["backfill"]
            for job, row in there.jobs.items()
            if row["backfill"] is not None and (row["state"] in _WAITING or _runs(there, job))
        )
        for name, count in active.items():
            self.most_active[name] = max(self.most_active[name], count)

    async def _pause(self, asked: AskedBackfill) -> None:
        """None of the jobs that do not exist yet are made until it is resumed."""
        asked.paused = True
        if not await self._tell(asked, "pause"):
            return
        before = await self._waiting(asked)
        await asyncio.sleep(self.rng.uniform(0.2, 1.5))
        after = await self._waiting(asked)
        if before is not None and after is not None and before != after:
            self.contradictions.append(f"backfill {asked.id} is paused and made jobs {sorted(before ^ after)}")

    async def _cancel(self, asked: AskedBackfill) -> None:
        if await self._tell(asked, "cancel"):
            asked.cancelled = True
            asked.never = await self._waiting(asked) or frozenset()

    async def _tell(self, asked: AskedBackfill, order: str) -> bool:
        """Whether it was done; False: the backfill has ended."""
        answer = (await ask(self.client, "POST", f"{asked.path}/{order}", {})).must_be(HTTPStatus.CONFLICT)
        return answer.status_code == HTTPStatus.ACCEPTED

    async def _waiting(self, asked: AskedBackfill) -> frozenset[int] | None:
        """The numbers of the items that are no jobs yet; None: there is no answer."""
        params = {"state": "WAITING", "limit": "1000"}
        answer = await ask_once(self.client, "GET", f"{asked.path}/jobs", params=params)
        return None if answer is None else frozenset(each["number"] for each in answer["jobs"])


def mark_of_columns(columns: Mapping[str, str]) -> str:
    """What an item of these values is about."""
    return " ".join(f"{name}={value}" for name, value in sorted(columns.items()))


def mark_of(ready: Mapping[str, Any]) -> str:
    """What a stored job of a backfill is about: its tick, or the values of its key's columns."""
    submission = ready["submission"]
    if "logical_at" in submission:
        return datetime.fromisoformat(submission["logical_at"]).isoformat()
    return mark_of_columns(submission.get("columns", {}))


def _runs(there: Stored, job: str) -> bool:
    return any(not RunState(there.runs[run]["state"]).is_terminal for run in there.runs_of.get(job, ()))
