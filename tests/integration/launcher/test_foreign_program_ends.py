"""What a job tells of a program of another namespace: that it ended, its outcome and the time; more only by a grant
with details.
"""

from __future__ import annotations

import orjson
import pytest

from streamsched.codec.records import launch
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind
from streamsched.domain.events.ancestors import NO_ANCESTORS
from streamsched.domain.events.event import Event, Outcome, ProgramReached
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import ProgramStatus, leaf_id
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

PAYROLL = ProgramRef("finance", "pay", "payroll")
OWN = ProgramRef("default", "app", "first")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def ended(program: ProgramRef, world: World) -> Event:
    fact = ProgramReached(
        program,
        f"{program}.1.1.r1",
        Outcome.FAILED,
        {"iban": "DE02"},
        world.clock.now(),
        f"no funds for {program}",
        f"log of {program}",
    )
    return Event(f"{program}.1.1.r1:FAILED", "streamsched/runs", world.clock.now(), fact, TRACE)


def satisfied(wanted: Schedule, world: World, sequence: int, *programs: ProgramRef) -> ReadyJob:
    parts = tuple(Contribution(leaf_id(ProgramStatus(each)), 1, (ended(each, world),)) for each in programs)
    return ReadyJob(wanted.ref, 1, sequence, world.clock.now(), parts, traceparent=TRACE)


async def given(world: World, *, state: GrantState = GrantState.GRANTED, details: bool = True) -> None:
    grant = NamespaceGrant(
        owner="finance",
        kind=SharedKind.PROGRAM,
        name="pay.*",
        grantee="default",
        state=state,
        details=details,
        by="token:finance",
    )
    await NamespaceGrantStore(world.pool).record([grant], now=world.clock.now())


async def stored(world: World, job: str) -> str:
    return orjson.dumps((await world.job(job)).ready).decode()


@pytest.mark.parametrize("grant", ["none", "pending", "granted", "refused"])
async def test_without_details_no_log_error_run_or_arguments_of_anothers_program_arrive(
    world: World, grant: str
) -> None:
    if grant != "none":
        await given(world, state=GrantState(grant), details=False)
    wanted = schedule("report", trigger=ProgramStatus(PAYROLL, frozenset({Outcome.FAILED})))
    await world.define(wanted)
    await world.satisfy(satisfied(wanted, world, 1, PAYROLL))
    await world.launcher.run_once()

    arguments = (await world.runs.get("default.app.report.1.1.r1")).arguments
    assert arguments["trigger.program"] == "finance.pay.payroll"
    assert arguments["trigger.outcome"] == "failed"
    assert (arguments["trigger.error"], arguments["trigger.log_tail"]) == ("", "")
    assert arguments["trigger.run"] == "withheld"
    ready = await stored(world, "default.app.report.1.1")
    for secret in ("DE02", "no funds", "log of", "r1", TRACE):
        assert secret not in ready
    fact = launch.decode(ready.encode()).contributions[0].events[0].fact
    begun = NO_ANCESTORS.extend_by_job(PAYROLL, f"{PAYROLL}.1.1.r1")
    assert fact == ProgramReached(PAYROLL, "withheld", Outcome.FAILED, {}, world.clock.now(), ancestors=begun)


async def test_with_details_everything_arrives(world: World) -> None:
    await given(world)
    wanted = schedule("report", trigger=ProgramStatus(PAYROLL, frozenset({Outcome.FAILED})))
    await world.define(wanted)
    job = satisfied(wanted, world, 1, PAYROLL)
    await world.satisfy(job)
    await world.launcher.run_once()

    arguments = (await world.runs.get("default.app.report.1.1.r1")).arguments
    assert arguments["trigger.log_tail"] == "log of finance.pay.payroll"
    assert orjson.loads(await stored(world, job.id)) == orjson.loads(launch.encode(job))


async def test_own_programs_and_neighbours_in_the_batch_are_untouched(world: World) -> None:
    wanted, other = schedule("report"), schedule("other")
    await world.define(wanted, other)
    mixed = satisfied(wanted, world, 1, OWN, PAYROLL)
    own = satisfied(other, world, 1, OWN)
    await world.satisfy(mixed, own)

    assert orjson.loads(await stored(world, own.id)) == orjson.loads(launch.encode(own))
    events = [part.events[0] for part in launch.decode((await stored(world, mixed.id)).encode()).contributions]
    assert events[0] == ended(OWN, world)
    assert "withheld" in events[1].id


async def test_jobs_without_ends_of_others_programs_ask_for_no_grants(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = schedule("report")
    await world.define(wanted)
    monkeypatch.setattr("streamsched.store.jobs.intake.BETWEEN", None)
    await world.satisfy(satisfied(wanted, world, 1, OWN))
    assert await stored(world, "default.app.report.1.1")
