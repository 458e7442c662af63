"""What goes on through a whole soak beside the apps of its rounds: tasks, a graph, a webhook."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from streamsched import App
from streamsched.codec.schedules.schedule import app_to_json
from tests.faults.load.patience import ask
from tests.support.judgement import Judgement

QUEUE: Final = "soak"
_APP: Final = "standing"
_HOOK: Final = "/v1/namespaces/default/webhooks"
_LANES: Final = 20
#: Tasks and job ids a second. Of each job id two nodes run.
_TASKS: Final = 2
_EVERY_S: Final = 1.0


@dataclass(slots=True)
class StandingLoad:
    """Attributes:
    tasks, nodes, changes: where tasks, runs of nodes and changes come, each by the key of its request; see
        `CountingServer.seen`.
    """

    client: httpx.AsyncClient
    tasks: Counter[str]
    nodes: Counter[str]
    changes: Counter[str]
    sent: int = 0
    submitted: int = 0

    async def begin(self, tasks: str, nodes: str, changes: str) -> None:
        """The queue, the graph and the webhook; each is given the URL to which it sends."""
        app = App(_APP)
        app.http("call", nodes)
        app.task("prepare", "call", job_id="{number}")
        app.task("build", "call", job_id="{number}", depends_on="prepare")
        # what has ended is kept as long as the longest time in which a repeat is recognised
        policy = {"target": {"type": "http", "url": tasks, "timeout": "20s"}, "dedupe": "30s"}
        await self._done("PUT", f"/v1/queues/{QUEUE}", policy)
        await self._done("PUT", f"/v1/apps/default/{_APP}", app_to_json(app.definition()))
        await self._done("POST", _HOOK, {"name": "soak", "url": changes, "changes": ["run.*"]})

    async def run(self, enough: asyncio.Event) -> None:
        """Sends until it is enough; then all that was sent is acknowledged."""
        began, number = time.monotonic(), 0
        while not enough.is_set():
            await self._send(number)
            number += 1
            await asyncio.sleep(max(0.0, began + number * _EVERY_S - time.monotonic()))

    async def _send(self, number: int) -> None:
        tasks = [{"key": f"k{number}-{n}", "lane": f"l{(number + n) % _LANES}", "data": number} for n in range(_TASKS)]
        await self._done("POST", f"/v1/queues/{QUEUE}/tasks", tasks)
        self.sent += _TASKS
        await self._done("POST", f"/v1/graphs/default/{_APP}/submit", {"task": "build", "jobIds": [str(number)]})
        self.submitted += 1

    async def judge(self) -> Judgement:
        """Every task came once, each node ran once, and no change is left to be sent."""
        verdict = Judgement()
        _judge_once("tasks", self.sent, self.tasks, verdict)
        nodes = Counter({key: times for key, times in self.nodes.items() if key.startswith(f"default.{_APP}.")})
        _judge_once("runs of nodes", 2 * self.submitted, nodes, verdict)
        hook: Mapping[str, Any] = (await self._done("GET", f"{_HOOK}/soak")).json()
        if hook["queued"] or hook["unread"]:
            left = hook["queued"] + hook["unread"]
            verdict.miss(f"{hook['queued']} changes are queued, {hook['unread']} unread", left)
        if not self.changes:
            verdict.miss("no change came")
        return verdict

    def progress(self) -> object:
        return self.tasks.total(), self.nodes.total(), self.changes.total()

    async def _done(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return (await ask(self.client, method, path, body)).must_be()


def _judge_once(what: str, wanted: int, seen: Counter[str], into: Judgement) -> None:
    if len(seen) != wanted:
        into.miss(f"{len(seen)} of {wanted} {what} came", abs(wanted - len(seen)))
    if seen.total() > len(seen):
        into.double(f"{seen.total() - len(seen)} {what} came again", seen.total() - len(seen))
