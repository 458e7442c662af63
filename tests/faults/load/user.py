"""Someone who deploys an app and changes its schedules over HTTP while events flow, and tries again what fails."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import httpx

from streamsched.codec.schedules.schedule import app_to_json, schedule_to_json
from streamsched.domain.jobs.job import JobState
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.pause import ACTIVITIES, PauseMode
from streamsched.domain.schedules.schedule import Schedule
from tests.faults.load.generated_schedules import GeneratedSchedules
from tests.faults.load.patience import ask

_WAITS: Final = JobState.PENDING_CONSTRAINT
#: How a job that is held may end: it joins another, or a change before the pause had ended it.
_MAY_END: Final = (JobState.COALESCED, JobState.OBSOLETE)


@dataclass(frozen=True, slots=True)
class Returned:
    """A change that has returned.

    Attributes:
        generation: at least that one stands.
        at: when it returned.
        anew: what was accumulated, and what waited, ended with it.
    """

    schedule: str
    generation: int
    at: datetime
    anew: bool


@dataclass(slots=True)
class User:
    """Attributes:
    returned: changes that the API said are done, in order.
    settled: schedules paused in a mode that holds jobs → those that did not wait any more when the pause had returned.
    waited: job → when the end of the pause was asked for that held it until then.
    contradictions: jobs that did something while they were held.
    modes: how often schedules were paused, by mode.
    """

    generated: GeneratedSchedules
    rng: random.Random
    client: httpx.AsyncClient
    returned: list[Returned] = field(default_factory=list)
    enabled: dict[str, bool] = field(default_factory=dict)
    settled: dict[str, frozenset[str]] = field(default_factory=dict)
    waited: dict[str, datetime] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    modes: Counter[str] = field(default_factory=Counter)
    gone: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The definitions by name, as last changed."""
        return self.generated.schedules

    async def deploy(self, definition: AppDefinition) -> None:
        """The whole app."""
        namespace, app = definition.ref.namespace, definition.ref.app
        await self._done("PUT", f"/v1/apps/{namespace}/{app}", app_to_json(definition))
        for schedule in definition.schedules:
            self.enabled[schedule.ref.name] = True
            self.returned.append(Returned(schedule.ref.name, 1, datetime.now(UTC), True))

    async def meddle(self, until: asyncio.Event) -> None:
        """One change after the other; then enables again whatever is not enabled."""
        names = [name for name in self.generated.schedules if name.startswith("s")]
        while not until.is_set():
            await asyncio.sleep(self.rng.expovariate(8))
            await self._change(self.rng.choice(names))
        for name in sorted(self.gone):
            await self._create(name)
        await self._enable_all()
        for name in [name for name, made in self.generated.schedules.items() if "every" in str(made.trigger)]:
            await self._tell(name, "disable")
            self.enabled[name] = False

    async def _change(self, name: str) -> None:
        self.changed.add(name)
        before = self.generated.schedules[name]
        if name in self.gone:
            await self._create(name)
        elif not self.enabled[name] and self.rng.random() < 0.3:
            await self._pause(name)
        elif not self.enabled[name]:
            await self._enable(name)
        else:
            match self.rng.choice((0, 1, 2, 3, 4, 5, 5, 5, 6, 7)):
                case 0 | 1:
                    await self._update(self.generated.schedule(name), keep=False)
                case 2:
                    await self._update(replace(before, description=f"{before.description}!"), keep=True)
                case 3 | 4:
                    other = self.generated.more_or_less(before) or replace(before, description=f"{before.description}?")
                    await self._update(other, keep=True)
                case 5:
                    await self._pause(name)
                case 6:
                    await self._tell(name, "disable")
                    self.enabled[name] = False
                case _:
                    await self._done("DELETE", self._address(name))
                    self.gone.add(name)

    async def _create(self, name: str) -> None:
        body = {**schedule_to_json(self.generated.schedules[name]), "enabled": True}
        answer = await self._done("POST", "/v1/schedules", body)
        self.gone.discard(name)
        self.enabled[name] = True
        self._note(name, answer, anew=True)

    async def _pause(self, name: str) -> None:
        """In any mode; one pause may replace another."""
        mode = self.rng.choice(list(PauseMode))
        await self._released(name)
        await self._tell(name, "pause", {"mode": mode})
        self.modes[mode.value] += 1
        self.enabled[name] = False
        if not ACTIVITIES[mode].admits:
            jobs = await self._jobs(name)
            self.settled[name] = frozenset(each["id"] for each in jobs if each["state"] != _WAITS)

    async def _released(self, name: str) -> None:
        """Whether the jobs of a paused schedule wait still, before the end of the pause is asked for."""
        if name not in self.settled:
            return
        settled = self.settled.pop(name)
        for each in await self._jobs(name):
            if each["id"] in settled or (each["submission"] or {}).get("backfill"):
                continue
            if each["state"] == _WAITS:
                self.waited[each["id"]] = datetime.now(UTC)
            elif each["state"] not in _MAY_END:
                self.contradictions.append(f"job {each['id']} is {each['state']} and its schedule was paused")

    async def _jobs(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The newest jobs of a schedule."""
        answer = await self._done("GET", f"/v1/jobs?schedule={self.generated.schedules[name].ref}&limit=1000")
        return answer.json()["jobs"]

    async def _enable(self, name: str) -> None:
        await self._released(name)
        await self._tell(name, "enable")
        self.enabled[name] = True

    async def _enable_all(self) -> None:
        """Whatever is not enabled, in one change."""
        app = self.generated.app
        for name in list(self.settled):
            await self._released(name)
        answer = await self._done("POST", f"/v1/apps/{app.namespace}/{app.app}/enable")
        now = datetime.now(UTC)
        for each in answer.json()["schedules"]:
            name = each["id"].rpartition(".")[2]
            self.returned.append(Returned(name, each["generation"], now, not each["keeps"]))
        self.enabled = dict.fromkeys(self.enabled, True)

    async def _update(self, definition: Schedule, *, keep: bool) -> None:
        name = definition.ref.name
        path = f"{self._address(name)}?keep={str(keep).lower()}"
        answer = await self._done("PUT", path, schedule_to_json(definition))
        self.generated.schedules[name] = definition
        self._note(name, answer, anew=not keep)

    async def _tell(self, name: str, what: str, body: Mapping[str, Any] | None = None) -> None:
        answer = await self._done("POST", f"{self._address(name)}/{what}", body)
        self._note(name, answer, anew=what == "disable" or (body or {}).get("mode") is PauseMode.DROP)

    def _note(self, name: str, answer: httpx.Response, *, anew: bool) -> None:
        """What was answered with success stands; that it stood already is no promise."""
        if answer.is_success and answer.content:
            self.returned.append(Returned(name, answer.json()["generation"], datetime.now(UTC), anew))

    def _address(self, name: str) -> str:
        return f"/v1/schedules/{self.generated.schedules[name].ref}"

    async def _done(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """Asks until it is answered: done, or, when asked again, that it is so already."""
        return (await ask(self.client, method, path, body)).must_be(HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
