"""Workers over HTTP: real server, real connections; killed, hung, stopped and away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from streamsched.access.authentication import OpenAuthentication
from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.api.task_streams import make_stream_api
from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.domain.tasks.task import TaskState
from streamsched.domain.tasks.task_retry import PeriodRetry
from streamsched.process.cancellation import cancel
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.worker import ReceivedTask, TaskWorker
from tests.integration.tasks.task_world import TaskWorld

POLICY = QueuePolicy(target=WorkerTarget(timedelta(seconds=30)), retry=PeriodRetry(timedelta(seconds=60)))
SCRIPT = """
import sys, time
from streamsched.tasks.worker import TaskWorker
worker = TaskWorker(sys.argv[1], concurrency=2)
@worker.task("q")
def hang(task):
    print(task.key, flush=True)
    time.sleep(600)
worker.run()
"""

DEADLY = """
import asyncio, os, sys
from streamsched.tasks.worker import TaskWorker
worker = TaskWorker(sys.argv[1], concurrency=5)
@worker.task("q")
async def do(task):
    if task.key == "poison":
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), 9)
worker.run()
"""


@asynccontextmanager
async def served(api: Starlette) -> AsyncIterator[str]:
    bound, started = bind("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(HttpServer(api, bound, started=started.set).run())
    await started.wait()
    try:
        yield url_of(bound)
    finally:
        await cancel(serving)
        bound.close()


@pytest.fixture
async def owner(world: TaskWorld) -> AsyncIterator[TaskLoop]:
    await world.queue(policy=POLICY)
    async with world.owning() as made:
        world.workers.on_room = made.wake
        yield made


@pytest.fixture
async def url(world: TaskWorld, owner: TaskLoop) -> AsyncIterator[str]:
    """An owner's streams, with a list of owners that names it."""
    api = make_stream_api(world.workers, AllowedHosts.of(), OpenAuthentication(), body_limit=1 << 20)
    async with served(api) as found:
        listed = JSONResponse({"owners": [{"id": "owner", "url": found}]})
        api.add_route("/v1/tasks/owners", lambda request: listed)
        yield found


async def until(owner: TaskLoop, holds: Callable[[], object | Awaitable[object]]) -> None:
    """Steps the owner until something holds."""
    async with asyncio.timeout(20):
        while True:
            await owner.run_once()
            found = holds()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def working(worker: TaskWorker) -> AsyncIterator[None]:
    serving = asyncio.create_task(worker.serve())
    try:
        yield
    finally:
        worker.stop()
        await serving


async def test_functions_do_tasks_in_order_and_failures_are_retried(
    world: TaskWorld, owner: TaskLoop, url: str
) -> None:
    done: list[tuple[str, int, object]] = []
    worker = TaskWorker(url, concurrency=3)

    @worker.task("q")
    async def send(task: ReceivedTask) -> None:
        done.append((task.key, task.attempt, task.json()))
        if task.key == "a" and task.attempt == 1:
            raise ValueError("no\0t now")

    first, _ = [await world.add(key, "lane", data=b'{"n": 1}', content_type="application/json") for key in ("a", "b")]
    await world.add("c", "other")
    assert await owner.run_once() == 0, "without a worker they are staged"
    assert (await world.registry.get(first)).attempts == []

    async def failed() -> bool:
        return (await world.registry.get(first)).failures == 1

    async with working(worker):
        await until(owner, failed)
        await until(owner, lambda: len(done) == 2)
        world.pass_time(60)
        await until(owner, lambda: len(done) == 4)
        await until(owner, empty(world))

    assert sorted(done[:2], key=str) == [("a", 1, {"n": 1}), ("c", 1, None)]
    assert done[2:] == [("a", 2, {"n": 1}), ("b", 1, {"n": 1})]


def empty(world: TaskWorld) -> Callable[[], Awaitable[object]]:
    async def holds() -> bool:
        return (await world.queues.get("q")).tasks == 0

    return holds


async def test_a_worker_that_is_killed_loses_nothing_and_uses_no_attempt(
    world: TaskWorld, owner: TaskLoop, url: str, tmp_path: Path
) -> None:
    task = await world.add("k", "lane")
    script = tmp_path / "worker.py"
    script.write_text(SCRIPT)
    process = await asyncio.to_thread(
        lambda: subprocess.Popen([sys.executable, str(script), url], stdout=subprocess.PIPE, text=True)
    )
    assert process.stdout is not None
    printed = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
    await until(owner, printed.done)
    assert printed.result() == "k\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    async def again() -> bool:
        return (await world.registry.get(task)).losses == 1

    await until(owner, again)
    found = await world.registry.get(task)
    assert (found.state, found.failures, found.interruptions) == (TaskState.RETRYING, 0, 0)
    world.pass_time(1)
    worker = TaskWorker(url)
    worker.task("q")(lambda task: None)
    async with working(worker):
        await until(owner, empty(world))


async def test_a_task_that_kills_its_workers_fails_and_its_lane_goes_on(
    world: TaskWorld, owner: TaskLoop, url: str, tmp_path: Path
) -> None:
    """The process dies with the others that it does; those are delivered again, and end well."""
    await world.queue(policy=QueuePolicy(target=WorkerTarget(max_losses=2), retry=POLICY.retry))
    script = tmp_path / "worker.py"
    script.write_text(DEADLY)
    poison = await world.add("poison", "lane")
    behind, beside = await world.add("behind", "lane"), await world.add("beside", "other")
    deaths, reasons = 0, []
    async with asyncio.timeout(60):
        while (await world.queues.get("q")).tasks:
            process = await asyncio.create_subprocess_exec(sys.executable, str(script), url)
            ended = asyncio.create_task(process.wait())
            while not ended.done() and (await world.queues.get("q")).tasks:
                await owner.run_once()
                await asyncio.sleep(0.02)
            if not ended.done():
                process.terminate()
            deaths += await ended == -signal.SIGKILL
            await until(owner, lambda: world.workers.room("q") == 0)
            await owner.wait_until_delivered()
            await owner.run_once()
            reasons += (await world.registry.explain(poison, now=world.clock.now()))[1]
            world.pass_time(60)

    found = await world.registry.get(poison)
    assert (found.state, found.failures, found.losses, deaths) == (TaskState.FAILED, 0, 2, 3)
    assert found.reason == "its worker was lost while it did the task (loss 3; its queue allows 2)"
    assert [each["result"] for each in found.attempts] == ["lost"] * 3
    assert [each.text.split(" and is tried again at ")[0] for each in reasons] == [
        "it lost its worker once",
        "it lost its worker 2 times",
    ]
    assert reasons[0].text.endswith(": its worker was lost while it did the task")
    for other in (behind, beside):
        assert (await world.registry.get(other)).state is TaskState.SUCCEEDED


async def test_a_worker_that_ends_in_order_gives_back_what_it_does_without_a_loss(
    world: TaskWorld, owner: TaskLoop, url: str
) -> None:
    begun = asyncio.Event()
    worker = TaskWorker(url, patience_s=0.1)

    @worker.task("q")
    async def hang(_: ReceivedTask) -> None:
        begun.set()
        await asyncio.sleep(600)

    task = await world.add("k", "lane")
    async with working(worker):
        await until(owner, begun.is_set)

    async def given_back() -> bool:
        return (await world.registry.get(task)).interruptions == 1

    await until(owner, given_back)
    found = await world.registry.get(task)
    assert (found.losses, found.failures) == (0, 0)


async def test_a_hung_attempt_fails_after_the_timeout_unless_it_sends_heartbeats(
    world: TaskWorld, owner: TaskLoop, url: str
) -> None:
    await world.queue(policy=QueuePolicy(target=WorkerTarget(timedelta(seconds=1)), retry=POLICY.retry))
    ended: list[str] = []
    worker = TaskWorker(url)

    @worker.task("q")
    async def hang(task: ReceivedTask) -> None:
        try:
            for _ in range(30 if task.key == "long" else 1):
                if task.key == "long":
                    task.heartbeat()
                await asyncio.sleep(0.1 if task.key == "long" else 600)
        finally:
            ended.append(task.key)

    await world.add("long", "a")
    hung = await world.add("hung", "b")
    async with working(worker):
        await until(owner, lambda: ended == ["hung", "long"])
        await until(owner, lambda: world.workers.room("q") == 10)
        found = await world.registry.get(hung)

    assert (found.state, found.failures) == (TaskState.RETRYING, 1)
    assert found.reason == "its worker neither ended it nor sent a heartbeat for 1s"


async def test_a_worker_that_stops_ends_what_it_does_and_takes_nothing_more(
    world: TaskWorld, owner: TaskLoop, url: str
) -> None:
    begun, ends, done = asyncio.Event(), asyncio.Event(), list[str]()
    worker = TaskWorker(url, concurrency=1)

    @worker.task("q")
    async def wait(task: ReceivedTask) -> None:
        begun.set()
        await ends.wait()
        done.append(task.key)

    await world.add("one", "a")
    await world.add("two", "b")
    serving = asyncio.create_task(worker.serve())
    await until(owner, begun.is_set)
    worker.stop()
    await until(owner, lambda: world.workers.room("q") == 0)
    ends.set()
    await serving
    await owner.wait_until_delivered()
    await owner.run_once()

    assert done in (["one"], ["two"])
    assert (await world.queues.get("q")).tasks == 1


async def test_a_worker_that_stops_waits_for_the_answer_to_its_report(world: TaskWorld, owner: TaskLoop) -> None:
    arrived, answers = asyncio.Event(), asyncio.Event()
    api = make_stream_api(world.workers, AllowedHosts.of(), OpenAuthentication(), body_limit=1 << 20)

    async def hold_up(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.url.path.startswith("/v1/task-streams/") and b'"done":[]' not in await request.body():
            arrived.set()
            await answers.wait()
        return await go_on(request)

    api.add_middleware(BaseHTTPMiddleware, dispatch=hold_up)
    await world.add("one")
    async with served(api) as url:
        listed = JSONResponse({"owners": [{"id": "owner", "url": url}]})
        api.add_route("/v1/tasks/owners", lambda request: listed)
        worker = TaskWorker(url, concurrency=1)

        @worker.task("q")
        async def accept(_: ReceivedTask) -> None:
            pass

        serving = asyncio.create_task(worker.serve())
        await until(owner, arrived.is_set)
        worker.stop()
        await asyncio.wait({serving}, timeout=0.5)
        answers.set()
        await serving
        await owner.wait_until_delivered()
        await owner.run_once()

    assert (await world.queues.get("q")).tasks == 0


async def test_an_owner_that_stops_waits_for_the_reports_of_its_workers(
    world: TaskWorld, owner: TaskLoop, url: str
) -> None:
    begun, ends = asyncio.Event(), asyncio.Event()
    worker = TaskWorker(url, concurrency=1)

    @worker.task("q")
    async def wait(_: ReceivedTask) -> None:
        begun.set()
        await ends.wait()

    await world.add("one", "a")
    await world.add("two", "b")
    async with working(worker):
        await until(owner, begun.is_set)
        stopping = asyncio.create_task(world.workers.stop(20))
        await asyncio.sleep(0)
        assert world.workers.room("q") == 0
        ends.set()
        await stopping
        await owner.wait_until_delivered()
        assert await owner.run_once() == 0

    assert (await world.queues.get("q")).tasks == 1


async def test_a_quiet_worker_is_given_nothing_more(world: TaskWorld, owner: TaskLoop) -> None:
    await world.add("one")
    with world.workers.connect(["q"], credit=1, quiet_s=-1), world.workers.connect(["q"], credit=1, quiet_s=60) as loud:
        assert world.workers.room("q") == 1
        await owner.run_once()
        loud.acknowledge((await loud.next_task()).token)
        await owner.wait_until_delivered()
        loud.take(0)
        assert world.workers.room("q") == 0


async def test_a_dropped_task_is_cancelled_in_its_worker(world: TaskWorld, owner: TaskLoop, url: str) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()
    worker = TaskWorker(url)

    @worker.task("q", heartbeats=True)
    async def hang(_: ReceivedTask) -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = await world.add("k", "a")
    async with working(worker):
        await until(owner, begun.is_set)
        await world.registry.drop(task, "test", now=world.clock.now())
        world.pass_time(10)
        await until(owner, cancelled.is_set)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$.queues"),
        ({"queues": []}, "$.queues"),
        ({"queues": ["a b"], "credit": 1}, "$.queues[0]"),
        ({"queues": ["q"]}, "$.credit"),
        ({"queues": ["q"], "credit": -1}, "$.credit"),
        ({"queues": ["q"], "credit": 1001}, "$.credit"),
    ],
)
async def test_a_bad_stream_is_refused(url: str, body: object, path: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        answer = await client.post("/v1/task-streams", json=body)
        assert (answer.status_code, answer.json()["path"]) == (400, path)
        assert (await client.post("/v1/task-streams/none", json={})).status_code == 404
