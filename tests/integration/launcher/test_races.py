"""Limits under races: launchers, hands, ends and lost runs at the same time, in any order Hypothesis finds, on a real
PostgreSQL with a connection for each.

A witness inside the database counts what is active. Its numbers are drawn under the same locks as the rows they tell
of, so their order is the order in which things became true; nobody can slip through between two looks. It also dozes
between the check and the commit of whoever makes a run, so that who checks without a lock is nearly always caught.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from streamsched_brokers.memory import open_broker

from streamsched.domain.constraint import Concurrency
from streamsched.domain.errors import ConflictError
from streamsched.domain.group import Group
from streamsched.domain.names import ProgramRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pool import Pool
from streamsched.domain.run import RunState
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.ports.runs import Ending, Silent
from streamsched.ports.topics import topic_specs
from streamsched.store.groups import PostgresGroups
from streamsched.store.pool import open_pool

from .conftest import MINUTE, SHARDS, World, schedule

pytestmark = pytest.mark.postgres

LIMIT: Final = 2
PROGRAMS: Final = tuple(ProgramRef("default", "app", f"p{n}") for n in range(2))
SLOTS: Final = {"a": 2, "b": 3, "pool:p": 2}
SCHEDULES: Final = tuple(
    replace(
        schedule(f"s{n}", constraints=(Concurrency(LIMIT, wait=True), *groups), overlap=overlap),
        program=PROGRAMS[n % len(PROGRAMS)],
    )
    for n, (groups, overlap) in enumerate(
        [
            ((Group("a", 2), Group("b", 3, weight=2)), Overlap.QUEUE),
            ((Group("b", 3), Pool("p", 2)), Overlap.COALESCE),
            ((Group("b", 3, weight=3), Group("a", 2)), Overlap.LATEST),
            ((Group("a", 2, weight=2),), Overlap.CANCEL_RUNNING),
            ((Pool("p", 2, priority=3),), Overlap.QUEUE),
            ((Pool("p", 2, priority=-3),), Overlap.QUEUE),
        ]
    )
)
WITNESS: Final = """
CREATE TABLE witness (seq bigserial PRIMARY KEY, what text NOT NULL, name text NOT NULL, change integer NOT NULL);
CREATE FUNCTION see_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO witness (what, name, change) VALUES ('program', NEW.program, 1);
        PERFORM pg_sleep(0.004);
    ELSIF OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL THEN
        INSERT INTO witness (what, name, change) VALUES ('program', NEW.program, -1);
    END IF; RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION see_run();
CREATE FUNCTION see_slot() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN INSERT INTO witness (what, name, change) VALUES ('group', NEW.group_name, NEW.weight);
    ELSE INSERT INTO witness (what, name, change) VALUES ('group', OLD.group_name, -OLD.weight);
    END IF; RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR DELETE ON group_slots FOR EACH ROW EXECUTE FUNCTION see_slot();
CREATE FUNCTION see_draw() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO witness (what, name, change) VALUES ('meter', NEW.scope, floor(NEW.remaining)); RETURN NULL; END $$;
CREATE TRIGGER see AFTER UPDATE ON meters FOR EACH ROW EXECUTE FUNCTION see_draw();
CREATE FUNCTION see_limit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO witness (what, name, change) VALUES ('limit', NEW.name, coalesce(NEW.slots, -1)); RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE ON groups FOR EACH ROW EXECUTE FUNCTION see_limit();
"""
FORGET: Final = """
TRUNCATE witness, jobs, runs, groups, group_slots, group_waits, lines, meters, decisions, outbox, intake_positions
RESTART IDENTITY CASCADE
"""

actors = st.lists(
    st.one_of(
        st.just(("launcher", 0)),
        st.tuples(st.just("hand"), st.integers(0, len(PROGRAMS) - 1)),
        st.tuples(st.just("hand"), st.integers(0, len(PROGRAMS) - 1)),
        st.tuples(st.sampled_from(["end", "lose", "claim"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["limit a", "limit b"]), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=5,
)
places = st.lists(st.integers(0, len(SCHEDULES) - 1), max_size=3)


class Races(RuleBasedStateMachine):
    """One installation; every race lets several actors loose at once and then counts."""

    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sequences: Counter[int] = Counter()
        self.hands = 0
        self.do(self._open())

    def do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(what, 60))

    async def _open(self) -> None:
        pool = await open_pool(self.dsn, min_size=4, max_size=8)
        await pool.execute(FORGET)
        broker = await open_broker("memory://")
        await broker.create_topics(topic_specs(SHARDS, MINUTE))
        self.world = World(self.dsn, pool, broker)
        self.groups = PostgresGroups(pool)
        await self.world.define(*SCHEDULES)

    def teardown(self) -> None:
        try:
            self.do(self._drain())
        finally:
            self.do(self._close())
            self.runner.close()

    async def _close(self) -> None:
        await self.world.bell.close()
        await self.world.broker.close()
        await self.world.pool.close()

    @rule(satisfied=places, loose=actors)
    def race(self, satisfied: Sequence[int], loose: Sequence[tuple[str, int]]) -> None:
        """Jobs come in; then two launchers and whoever is loose besides go for them."""
        self.sequences.update(satisfied)
        ready = (self.world.ready(SCHEDULES[place], self.sequences[place]) for place in dict.fromkeys(satisfied))
        self.do(self.world.satisfy(*ready))
        self.do(self._race([("launcher", 0), *loose, ("launcher", 0)]))
        self.do(self._count())

    async def _race(self, loose: Sequence[tuple[str, int]]) -> None:
        active = await self.world.column("SELECT id FROM runs WHERE ended_at IS NULL ORDER BY created_at, id")
        told = [active[place % len(active)] for name, place in loose if name in ("end", "lose", "claim") and active]
        acts: list[Coroutine[Any, Any, object]] = []
        for name, place in loose:
            match name:
                case "launcher":
                    acts.append(self._launcher().run_once())
                case "hand":
                    acts.append(self._by_hand(PROGRAMS[place]))
                case "end" | "lose" | "claim":
                    if told:
                        acts.append(self._move(name, told.pop()))
                case _:
                    group = name.removeprefix("limit ")
                    acts.append(self.groups.set_limit(group, place or None, "", now=self.world.clock.now()))
        await asyncio.gather(*acts)

    def _launcher(self) -> Launcher:
        world = self.world
        return Launcher(world.decisions, world.followup, world.bell, world.clock)

    async def _by_hand(self, program: ProgramRef) -> None:
        self.hands += 1
        try:
            await start(self.world.runs, self.world.clock, program, {}, at_most=LIMIT, token=f"t{self.hands}")
        except ConflictError:
            return

    async def _move(self, what: str, run: str) -> None:
        book, now = self.world.book, self.world.clock.now()
        if what != "claim":
            await book.claim(run, runner="h:1:1", log_path="", now=now)
        match what:
            case "claim":
                await book.claim(run, runner="h:1:1", log_path="", now=now)
            case "lose":
                attempt = int(run.rpartition(".r")[2])
                await book.lose(Silent(run, attempt, "h:1:1", now), "gone", now=now, attempts=2)
            case _:
                await book.finish(run, Ending(RunState.COMPLETED, "", now, 0))

    async def _count(self) -> None:
        taken: Counter[tuple[str, str]] = Counter()
        limits: dict[str, int] = dict(SLOTS)
        for row in await self.world.pool.fetch("SELECT what, name, change FROM witness ORDER BY seq"):
            key = row["what"], row["name"]
            if row["what"] == "limit":
                limits[row["name"]] = SLOTS[row["name"]] if row["change"] < 0 else row["change"]
                continue
            taken[key] += row["change"]
            assert taken[key] >= 0, f"{key} was given back twice"
            if row["change"] > 0:
                limit = LIMIT if row["what"] == "program" else limits[row["name"]]
                assert taken[key] <= limit, f"{key}: {taken[key]} of {limit}"

    async def _drain(self) -> None:
        """Everything ends by wake-ups alone, for the clock stands still: no job is forgotten, no slot stays taken."""
        for name in SLOTS:
            await self.groups.set_limit(name, None, "", now=self.world.clock.now())
        for _ in range(200):
            while await self._launcher().run_once():
                pass
            active = await self.world.column("SELECT id FROM runs WHERE ended_at IS NULL")
            for run in active:
                await self._move("end", run)
            if not active:
                break
        await self._count()
        assert await self.world.column("SELECT id FROM jobs WHERE ended_at IS NULL") == []
        assert await self.world.column("SELECT run FROM group_slots") == []
        assert await self.world.column("SELECT job FROM group_waits") == []
        assert await self.world.column("SELECT job FROM lines") == []


def test_no_race_passes_a_limit_or_forgets_a_job(database: str) -> None:
    examples = int(os.environ.get("EXAMPLES", "8"))

    class Here(Races):
        dsn = database

    with asyncio.Runner() as runner:
        runner.run(_witnessed(database))
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples, stateful_step_count=8, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


async def _witnessed(dsn: str) -> None:
    pool = await open_pool(dsn)
    await pool.execute(WITNESS)
    await pool.close()
