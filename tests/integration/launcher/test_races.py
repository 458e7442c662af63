"""Limits and rates under races: launchers, manual runs, ends and lost runs at once, in any order Hypothesis finds,
on a real PostgreSQL with a connection for each.

A witness inside the database counts what is active. Its numbers are drawn under the same locks as the rows they tell
of, so their order is the order in which things became true; none can slip through between two checks. It also dozes
between the check and the commit of the maker of a run, so that a caller that checks without a lock is nearly always
caught.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from streamsched_brokers.memory import open_broker

from streamsched.domain.constraints.constraint import Concurrency, Delay, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope, bucket_of
from streamsched.domain.errors import ConflictError
from streamsched.domain.jobs.job import JobCommand, ReadyJob, ScheduleKey
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.log.topics import topic_specs
from streamsched.ports.runs import RunEnd
from streamsched.store.connections import open_pool
from streamsched.store.limits.groups import GroupStore
from streamsched.store.runs.run_monitor import SilentRun
from streamsched.testing.clock import SettableClock
from tests.support.health_checks import ALL_CHECKS

from .conftest import MINUTE, SHARDS, World, schedule

pytestmark = pytest.mark.postgres

LIMIT: Final = 2
PROGRAMS: Final = tuple(ProgramRef("default", "app", f"p{n}") for n in range(3))
SHARED: Final = Rate(6, 6 * MINUTE, burst=2, of=RateScope.GROUP, group="r")
TIMED: Final = (Delay, LastRun, Rate)
SLOTS: Final = {"a": 2, "b": 3, "pool:p": 2}
SCHEDULES: Final = tuple(
    replace(
        schedule(f"s{n}", constraints=(Concurrency(LIMIT, wait=True), *limits), overlap=overlap),
        program=PROGRAMS[program],
        timeout=timedelta(days=9),
    )
    for n, (program, limits, overlap) in enumerate(
        [
            (0, (Group("a", 2), Group("b", 3, weight=2)), Overlap.QUEUE),
            (1, (Group("b", 3), Pool("p", 2)), Overlap.COALESCE),
            (0, (Group("b", 3, weight=3), Group("a", 2)), Overlap.LATEST),
            (1, (Group("a", 2, weight=2),), Overlap.CANCEL_RUNNING),
            (0, (Pool("p", 2, priority=3),), Overlap.QUEUE),
            (1, (Pool("p", 2, priority=-3),), Overlap.QUEUE),
            (2, (Rate(2, 2 * MINUTE), SHARED), Overlap.QUEUE),
            (2, (Rate(4, 5 * MINUTE, burst=2),), Overlap.QUEUE),
            (0, (Rate(2, 60 * MINUTE, of=RateScope.SCHEDULE), SHARED, Pool("p", 2)), Overlap.QUEUE),
            (1, (Rate(1, 3 * MINUTE, of=RateScope.KEY), SHARED), Overlap.QUEUE),
            (0, (Delay(2 * MINUTE), Group("b", 3)), Overlap.QUEUE),
            (1, (LastRun(2 * MINUTE, wait=True), Pool("p", 2)), Overlap.QUEUE),
        ]
    )
)
WITNESS: Final = """
CREATE TABLE witness (seq bigserial PRIMARY KEY, what text NOT NULL, name text NOT NULL, change integer NOT NULL,
    xid text NOT NULL DEFAULT pg_current_xact_id()::text);
CREATE FUNCTION see_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO witness (what, name, change) VALUES ('program', NEW.program, 1);
        INSERT INTO witness (what, name, change) SELECT 'run', NEW.id, 0 WHERE NEW.attempt = 1;
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
    INSERT INTO witness (what, name, change) VALUES
        ('draw', concat_ws('/', NEW.scope, NEW.max_runs, extract(epoch FROM NEW.per)::integer, NEW.burst), 0);
    RETURN NULL; END $$;
CREATE TRIGGER see AFTER UPDATE ON meters FOR EACH ROW EXECUTE FUNCTION see_draw();
CREATE FUNCTION see_limit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO witness (what, name, change) VALUES ('limit', NEW.name, coalesce(NEW.slots, -1)); RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE ON groups FOR EACH ROW EXECUTE FUNCTION see_limit();
"""
BEGUN: Final = """
SELECT r.id, r.job, r.program, r.created_at, j.schedule, j.ready ->> 'key' AS key, w.xid
FROM witness w JOIN runs r ON r.id = w.name LEFT JOIN jobs j ON j.id = r.job WHERE w.what = 'run' ORDER BY w.seq
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
        st.tuples(st.sampled_from(["hold", "release"]), st.integers(0, 5)),
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
        self.manual_runs = 0
        self.do(self._open())

    def do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(what, 60))

    async def _open(self) -> None:
        pool = await open_pool(self.dsn, min_size=4, max_size=8)
        await pool.execute(FORGET)
        broker = await open_broker("memory://")
        await broker.create_topics(topic_specs(SHARDS, MINUTE))
        self.world = World(self.dsn, pool, broker)
        self.groups = GroupStore(pool)
        await self.world.define(*SCHEDULES)

    def teardown(self) -> None:
        try:
            self.do(self._drain())
        finally:
            self.do(self._close())
            self.runner.close()

    async def _close(self) -> None:
        await self.world.notifier.close()
        await self.world.broker.close()
        await self.world.pool.close()

    @rule(satisfied=places, loose=actors, behind=st.sampled_from([0, 0, 90]))
    def race(self, satisfied: Sequence[int], loose: Sequence[tuple[str, int]], behind: int) -> None:
        """Jobs come in; then two launchers, one with a clock that may be behind, and the other loose actors go for
        them.
        """
        self.do(self.world.satisfy(*(self._ready(place) for place in satisfied)))
        self.do(self._race([("launcher", 0), *loose, ("launcher", behind)]))
        self.do(self._count())

    @rule(seconds=st.integers(1, 400))
    def pass_time(self, seconds: int) -> None:
        """Tokens come."""
        self.world.clock.advance(timedelta(seconds=seconds))

    @rule(place=st.sampled_from([6, 8, 9]))
    def contend(self, place: int) -> None:
        """A launcher and manual runs of other programs want the tokens of one full bucket at once; none is left."""
        self.pass_time(600)
        own = PROGRAMS.index(SCHEDULES[place].program)
        others = [("hand", n) for n in range(len(PROGRAMS)) if n != own]
        self.race([place, place], others, 0)
        self.race([place], [], 0)

    def _ready(self, place: int) -> ReadyJob:
        self.sequences[place] += 1
        ready = self.world.ready(SCHEDULES[place], self.sequences[place])
        keyed = any(rate.of is RateScope.KEY for rate in SCHEDULES[place].rates)
        return replace(ready, key=f"k{ready.sequence % 2}") if keyed else ready

    async def _race(self, loose: Sequence[tuple[str, int]]) -> None:
        active = [run.id for run in sorted(await self.world.active(), key=lambda run: (run.created_at, run.id))]
        reported = [active[place % len(active)] for name, place in loose if name in ("end", "lose", "claim") and active]
        waiting = [job.id for job in await self.world.waiting()]
        acts: list[Coroutine[Any, Any, object]] = []
        for name, place in loose:
            match name:
                case "launcher":
                    acts.append(self._launcher(behind=place).run_once())
                case "hand":
                    acts.append(self._by_hand(PROGRAMS[place]))
                case "end" | "lose" | "claim":
                    if reported:
                        acts.append(self._move(name, reported.pop()))
                case "hold" | "release":
                    if waiting:
                        acts.append(self._order(waiting[place % len(waiting)], hold=name == "hold"))
                case _:
                    group = name.removeprefix("limit ")
                    acts.append(self.groups.set_limit(group, place or None, "", now=self.world.clock.now()))
        await asyncio.gather(*acts)

    def _launcher(self, *, behind: int = 0) -> Launcher:
        world = self.world
        clock = SettableClock(world.clock.now() - timedelta(seconds=behind))
        return Launcher(world.decisions, world.run_monitor, world.notifier, clock)

    async def _by_hand(self, program: ProgramRef) -> None:
        self.manual_runs += 1
        try:
            await start(self.world.runs, self.world.clock, program, {}, at_most=LIMIT, token=f"t{self.manual_runs}")
        except ConflictError:
            return

    async def _order(self, job: str, *, hold: bool) -> None:
        with suppress(ConflictError):  # it has gone meanwhile
            await self.world.jobs.command(job, JobCommand.HOLD if hold else None, "", now=self.world.clock.now())

    async def _move(self, what: str, run: str) -> None:
        run_store, now = self.world.run_store, self.world.clock.now()
        if what != "claim":
            await run_store.claim(run, runner="h:1:1", log_path="", now=now)
        match what:
            case "claim":
                await run_store.claim(run, runner="h:1:1", log_path="", now=now)
            case "lose":
                attempt = int(run.rpartition(".r")[2])
                await run_store.mark_lost(SilentRun(run, attempt, "h:1:1", now), "gone", now=now, attempts=2)
            case _:
                await run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))

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
        await self._count_tokens()

    async def _count_tokens(self) -> None:
        """Buckets in fractions, filled and emptied by the runs themselves, in the order in which they were drawn of."""
        runs: dict[str, list[Any]] = defaultdict(list)
        for row in await self.world.pool.fetch(BEGUN):
            runs[row["xid"]].append(row)
        left: dict[str, tuple[Fraction, datetime]] = {}
        draws: dict[str, set[str]] = defaultdict(set)
        for row in await self.world.pool.fetch("SELECT name, xid FROM witness WHERE what = 'draw' ORDER BY seq"):
            scope, limit, per, burst = row["name"].split("/")
            draws[row["xid"]].add(row["name"])
            counted = [run for run in runs[row["xid"]] if scope in {each.split("/")[0] for each in metered(run)}]
            assert counted, f"{row['name']}: a token went, and no job has it"
            tokens, at = left.get(row["name"], (Fraction(burst), counted[0]["created_at"]))
            now = max(at, counted[0]["created_at"])
            passed = Fraction(round((now - at).total_seconds()))
            tokens = min(Fraction(burst), tokens + passed * int(limit) / int(per)) - len(counted)
            by_hand = counted[0]["job"] is None
            assert by_hand or tokens >= 0, f"{row['name']}: {len(counted)} went where {tokens + len(counted)} were left"
            left[row["name"]] = max(tokens, Fraction(-int(burst))), now
        for xid, begun in runs.items():
            for run in begun:
                assert metered(run) <= draws[xid], f"{run['id']} is metered, and took no token"

    async def _drain(self) -> None:
        """Everything ends by wake-ups alone while the clock stands still, held jobs when they are released, but for
        what waits for time to pass, or for tokens, which time brings: no job is forgotten, no slot stays taken.
        """
        for name in SLOTS:
            await self.groups.set_limit(name, None, "", now=self.world.clock.now())
        await self._settle()
        for job in await self.world.waiting():
            await self._order(job.id, hold=False)
        await self._settle()
        left = {job.schedule for job in await self.world.stored_jobs() if job.ended_at is None}
        timed = {str(each.ref) for each in SCHEDULES if any(isinstance(limit, TIMED) for limit in each.constraints)}
        assert set(left) <= timed
        for _ in range(60):
            if all(job.ended_at for job in await self.world.stored_jobs()):
                break
            self.world.clock.advance(timedelta(hours=1))
            await self._settle()
        await self._count()
        assert [job.id for job in await self.world.stored_jobs() if job.ended_at is None] == []
        assert await self.world.holders() == []
        assert await self.world.group_waits() == []
        assert await self.world.line() == []

    async def _settle(self) -> None:
        """Launchers do what there is to do, and runs end, until nothing moves."""
        for _ in range(200):
            while await self._launcher().run_once():
                pass
            active = await self.world.active()
            for run in active:
                await self._move("end", run.id)
            if not active:
                break


def metered(run: Any) -> set[str]:
    """The buckets that a run has to draw of, as the witness calls them: one by hand those of its program and of the
    groups that any of its schedules names.
    """
    program = ProgramRef.parse(run["program"])
    schedule_key = None if run["job"] is None else ScheduleKey(ScheduleRef.parse(run["schedule"]), run["key"] or "")
    asked: set[str] = set()
    for each in SCHEDULES:
        if each.program != program or (schedule_key is not None and schedule_key.schedule != each.ref):
            continue
        for rate in each.rates:
            if schedule_key is not None or rate.of in (RateScope.PROGRAM, RateScope.GROUP):
                meter = bucket_of(rate, program, schedule_key or ScheduleKey(each.ref))
                asked.add(f"{meter.key}/{meter.limit}/{int(meter.per.total_seconds())}/{meter.burst}")
    return asked


def test_no_race_passes_a_limit_or_forgets_a_job(database: str) -> None:
    examples = int(os.environ.get("EXAMPLES", "5"))

    class Here(Races):
        dsn = database

    with asyncio.Runner() as runner:
        runner.run(_witnessed(database))
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples, stateful_step_count=7, deadline=None, suppress_health_check=ALL_CHECKS
        ),
    )


async def _witnessed(dsn: str) -> None:
    pool = await open_pool(dsn)
    await pool.execute(WITNESS)
    await pool.close()
