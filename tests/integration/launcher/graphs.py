"""The graph of an app on a real PostgreSQL, and workers for its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from streamsched.codec.graph.task import tasks_from_json
from streamsched.domain.graph.graph import NodeId
from streamsched.domain.graph.release import node_trigger, schedule_of
from streamsched.domain.graph.task import TaskTemplate
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.graph.functions import GraphFunctions
from streamsched.graph.progression import Progression
from streamsched.graph.submission import GraphDesk
from streamsched.ports.runs import RunEnd
from streamsched.store.graph.nodes import NodeStore

from .conftest import World

APP = AppRef("default", "app")


class Days:
    """A week needs its days: job ids `w1` and `1` to `7`, `w2` and `8` to `14`. `broken` fails on some days."""

    broken: ClassVar[set[str]] = set()

    @staticmethod
    def parents(week: str) -> list[str]:
        return [str(7 * int(week[1:]) - day) for day in range(7)]

    @classmethod
    def children(cls, day: str) -> list[str]:
        if day in cls.broken:
            raise ValueError("not today")
        return [f"w{(int(day) + 6) // 7}"]


class Pairs:
    """A pair `r3` needs `2` and `3`, `r4` needs `3` and `4`. `broken`: pairs on which it fails."""

    broken: ClassVar[set[str]] = set()

    @classmethod
    def parents(cls, pair: str) -> list[str]:
        if pair in cls.broken:
            raise ValueError("no such pair today")
        return [str(int(pair[1:]) - 1), pair[1:]]

    @staticmethod
    def children(number: str) -> list[str]:
        return [f"r{number}", f"r{int(number) + 1}"]


def is_odd(task: str, values: Mapping[str, str]) -> bool:
    return int(values["d"]) % 2 == 1


def as_number(text: str) -> int:
    """As a validator of Stolos: converts, or raises."""
    return int(text)


class Graphs:
    """The graph of an app, and workers for its jobs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = NodeStore(world.pool)
        validations = {"shop": lambda: {"d": as_number}}
        self.functions = GraphFunctions(
            {"days": lambda: Days, "pairs": lambda: Pairs}, {"odd": lambda: is_odd}, validations
        )
        self.desk = GraphDesk(self.store, world.clock, self.functions)
        self.progression = Progression(self.store, world.notifier, world.clock, self.functions)
        self.done: list[str] = []

    async def put(
        self, tasks: dict[str, Any] | tuple[TaskTemplate, ...], *, enabled: bool = True, generation: int = 1
    ) -> None:
        found = tasks_from_json(tasks) if isinstance(tasks, dict) else tasks
        for task in found:
            program = ProgramRef("default", "app", task.name)
            schedule = Schedule(schedule_of(APP, task.name), program, node_trigger(APP, task), overlap=Overlap.QUEUE)
            await self.world.define(schedule, enabled=enabled, generation=generation)
        await self.store.put(APP, found, now=self.world.clock.now())

    async def submit(self, task: str, *job_ids: str, again: bool = False) -> int | None:
        plan = await self.desk.submit(APP, [NodeId(task, each) for each in job_ids], again=again)
        return plan.jobs

    async def progress(self) -> None:
        for _ in range(1000):
            if not await self.progression.run_once():
                return
        raise AssertionError("it never rests")

    async def launch(self) -> list[str]:
        """Launchers decide; the runs that were made."""
        while await self.world.launcher.run_once():
            pass
        return await self.world.pending()

    async def end(self, run: str, state: RunState = RunState.COMPLETED, exit_code: int | None = None) -> None:
        now = self.world.clock.now()
        assert await self.world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
        code = exit_code if exit_code is not None else 0 if state is RunState.COMPLETED else 1
        assert await self.world.run_store.finish(run, RunEnd(state, "because", now, code))
        arguments = (await self.world.run(run)).arguments
        self.done.append(f"{arguments['task']} {arguments['job_id']}")

    async def work(
        self, failing: Callable[[str], bool] = lambda run: False, codes: Mapping[str, int] | None = None
    ) -> None:
        """Everything runs to its end, with these exit codes by task where it completes."""
        for _ in range(1000):
            await self.progress()
            runs = await self.launch()
            if not runs:
                return
            for run in runs:
                failed, task = failing(run), run.split(".")[2]
                code = None if failed or codes is None else codes.get(task)
                await self.end(run, RunState.FAILED if failed else RunState.COMPLETED, code)
        raise AssertionError("it never rests")

    async def states(self) -> dict[str, str]:
        return {f"{node.task} {node.job_id}": node.state for node in await self.world.nodes()}


def task(template: str, *on: str, **more: Any) -> dict[str, Any]:
    return {"job_id": template, **({"depends_on": {"task": list(on)}} if on else {}), **more}


CHAIN = {"a": task("{d}"), "b": task("{d}", "a"), "c": task("{d}", "b")}
