"""Someone who submits jobs, starts runs at once, runs jobs again and starts backfills over HTTP, and tries again what
fails.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import httpx

from streamsched.domain.schedules.schedule import Schedule
from tests.faults.load.backfills import Backfills
from tests.faults.load.generated_schedules import VALUES, GeneratedSchedules, pers_of
from tests.faults.load.patience import ask, ask_once

#: Clients, and requests a second of each, if they are answered at once.
_CLIENTS: Final = 4
_RATE: Final = 2
#: Ids of reruns of reruns become digests; those are not repeated once more.
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that the API has accepted.

    Attributes:
        former: the job that it repeats.
        muted: whether the end of its runs is given to no schedule.
        alone: whether it has arguments of its own, so that it joins no other job.
    """

    former: str | None = None
    muted: bool = False
    alone: bool = False


@dataclass(slots=True)
class Requests:
    """Attributes:
    accepted: job → what was asked.
    at_once: ids of the runs that have no job.
    unsure: ids of jobs and backfills that an unanswered request may have made before it was refused.
    contradictions: answers that do not fit an earlier one.
    kinds: how many were accepted of each kind.
    paused: schedules that hold their jobs now, which are asked for oftener than others.
    """

    generated: GeneratedSchedules
    rng: random.Random
    client: httpx.AsyncClient
    accepted: dict[str, Accepted] = field(default_factory=dict)
    at_once: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    contradictions: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    paused: Mapping[str, object] = field(default_factory=dict)
    backfills: Backfills = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self.backfills = Backfills(self.generated, self.rng, self.client)

    async def ask(self, until: asyncio.Event) -> None:
        """Requests of several clients, each one after the other."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_CLIENTS):
                group.create_task(self._ask(until))

    async def _ask(self, until: asyncio.Event) -> None:
        while not until.is_set():
            await asyncio.sleep(self.rng.expovariate(_RATE))
            await self._one()

    async def _one(self) -> None:
        self._number += 1
        token, app = f"u{self._number}", str(self.generated.app)
        match self.rng.randrange(11):
            case 0 | 1 | 2 | 3:
                names = [name for name in self.generated.schedules if name.startswith("s")]
                if self.paused and self.rng.random() < 0.5:
                    names = sorted(self.paused)
                schedule = self.generated.schedules[self.rng.choice(names)]
                await self._submit(f"/v1/schedules/{schedule.ref}/runs", str(schedule.ref), token, self._key(schedule))
            case 4 | 5:
                program = f"{app}.{self.rng.choice(('note', 'link', 'call', 'tell'))}"
                await self._submit(f"/v1/programs/{program}/runs", program, token, {})
            case 6:
                program = f"{app}.note"
                if await self._asked(f"/v1/programs/{program}/runs", {"now": True}, token, "run") is not None:
                    self.at_once.add(f"{program}.manual-{token}.r1")
                    self.kinds["at once"] += 1
            case 7 | 8:
                await self._rerun(token)
            case _:
                await self._backfill(token)

    async def _submit(self, path: str, owner: str, token: str, key: Mapping[str, str]) -> None:
        alone = self.rng.random() < 0.3
        body: dict[str, Any] = {"arguments": {"asked": token}} if alone else {}
        if key:
            body["key"] = key
        job = f"{owner}.submitted-{token}"
        if await self._asked(path, body, token, job) is not None:
            self.accepted[job] = Accepted(alone=alone)
            self.kinds["submissions"] += 1

    async def _rerun(self, token: str) -> None:
        """Of any job that was launched, most of them lately; whether its last run has ended is for the API to say."""
        params = {"app": str(self.generated.app), "state": "LAUNCHED"}
        answer = await ask_once(self.client, "GET", "/v1/jobs", params=params)
        jobs = [each["id"] for each in (answer or {"jobs": ()})["jobs"] if len(each["id"]) < _LONGEST]
        if not jobs:
            return
        former, muted = self.rng.choice(jobs), self.rng.random() < 0.3
        job = f"{former}.rerun-{token}"
        if await self._asked(f"/v1/jobs/{former}/rerun", {"mute": muted}, token, job) is not None:
            self.accepted[job] = Accepted(former, muted, alone=True)
            self.kinds["reruns"] += 1

    async def _backfill(self, token: str) -> None:
        asked, body = self.backfills.invent(token)
        answer = await self._asked(f"/v1/schedules/{asked.schedule}/backfills", body, token, asked.id)
        if answer is not None:
            self.kinds["backfills"] += 1
            await self.backfills.accept(asked, answer)

    async def _asked(self, path: str, body: Mapping[str, Any], token: str, made: str) -> Mapping[str, Any] | None:
        """Asks until it is answered, and now and then once more with the same key; the answer that accepts it. `made`:
        the id of the job or backfill that it makes, or "run".
        """
        key = {"Idempotency-Key": token}
        answer, again = await ask(self.client, "POST", path, body, **key)
        if answer.status_code != HTTPStatus.ACCEPTED:
            if again:
                self.unsure.add(made)
            return None
        self._compare(path, answer.json(), made, again=False)
        if self.rng.random() < 0.3:
            # A repeat, whose answer may be lost; a schedule that has been changed since may refuse it.
            repeated = await ask_once(self.client, "POST", path, json=body, headers=key)
            if repeated is not None:
                self._compare(path, repeated, made, again=True)
        return answer.json()

    def _compare(self, path: str, found: Mapping[str, Any], made: str, *, again: bool) -> None:
        """A repeat must name the first job."""
        name = found.get("id" if path.endswith("/backfills") else "job")
        if name is not None and (name != made or (again and not found["repeated"])):
            self.contradictions.append(f"{path} was to make {made}{' again' if again else ''}: {found}")

    def _key(self, schedule: Schedule) -> Mapping[str, str]:
        """Values of the columns of its key; of none where it does not correlate."""
        per = next(pers_of(schedule.trigger), None)
        return {} if per is None else {column: self.rng.choice(VALUES[column]) for column in per.by}
