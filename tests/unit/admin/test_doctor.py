"""What `doctor` says about the wall between namespaces, from the facts that it gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.admin.checks.check_result import CheckLevel, CheckResult
from streamsched.admin.doctor import examine
from streamsched.ports.broker import Broker
from streamsched.ports.clock import SystemClock
from streamsched.store.server.probe import DatabaseFacts, DatabaseProbe


class Probe(DatabaseProbe):
    """A database with these pending grants, and backlogs of these ages."""

    def __init__(
        self, grants: tuple[str, ...] = (), total: int = 0, backlogs: Mapping[str, timedelta] | None = None
    ) -> None:
        self._grants, self._total = grants, total
        self._backlogs = backlogs or {}

    async def facts(self) -> DatabaseFacts:
        return DatabaseFacts(
            server="17",
            revision="1",
            now=(now := datetime.now(UTC)),
            forbidden=(),
            outbox=0,
            outbox_since=None,
            leases=(),
            hidden={},
            late=0.0,
            pending_grants=self._grants,
            pending_grants_total=self._total,
            backlogs={name: now - age for name, age in self._backlogs.items()},
        )


async def found(check: str, probe: Probe | None = None, run_as: str | None = None) -> list[CheckResult]:
    broker: Broker = MemoryBroker(MemoryLog())
    environ = None if run_as is None else {"STREAMSCHED_RUN_AS": run_as, "PATH": ""}
    try:
        everything = await examine(
            broker=broker, probe=probe or Probe(), clock=SystemClock(), specs=(), revisions=("1",), environ=environ
        )
    finally:
        await broker.close()
    return [each for each in everything if each.check == check]


async def test_pending_grants_are_named_and_the_others_counted() -> None:
    grants = ("dataset finance.raw to sales", "pool ops.cluster to sales")

    assert await found("grants between namespaces") == []
    [few] = await found("grants between namespaces", Probe(grants, 2))
    [many] = await found("grants between namespaces", Probe(grants, 9000))

    assert few.health is CheckLevel.WARNING
    assert few.found == "pending: dataset finance.raw to sales, pool ops.cluster to sales"
    assert "streamsched grant list, give, refuse" in few.advice
    assert many.found == f"{few.found} and 8998 more"


async def test_backlogs_are_named_and_those_that_are_no_burst_are_warnings() -> None:
    assert await found("backlogs") == []
    ages = {"sales": timedelta(seconds=90), "": timedelta(seconds=11), "ops": timedelta(seconds=-1)}

    flood, nobodys, burst = await found("backlogs", Probe(backlogs=ages))

    assert (flood.health, nobodys.health, burst.health) == (CheckLevel.WARNING, CheckLevel.WARNING, CheckLevel.OK)
    assert flood.found == "records of namespace 'sales' have waited for 90 s behind others of theirs"
    assert "more workers take more" in flood.advice
    assert nobodys.found == "records that are no events have waited for 11 s behind others of theirs"
    assert burst.found == "records of namespace 'ops' have waited for 0 s behind others of theirs"


@pytest.mark.parametrize(
    ("user", "run_as", "level", "said"),
    [
        (0, "", CheckLevel.WARNING, "programs run as the superuser, as this launcher does"),
        (0, "sales=anna", CheckLevel.WARNING, "programs that STREAMSCHED_RUN_AS does not name run as the superuser"),
        (0, "*=anna", CheckLevel.OK, "all run as users of their own on"),
        (7, "", CheckLevel.OK, "programs run as the user of this launcher: they read and change its data folder"),
        (7, "anna", CheckLevel.FAILED, "must be such as sales=alice"),
    ],
)
async def test_what_separates_programs_is_said(
    monkeypatch: pytest.MonkeyPatch, user: int, run_as: str, level: CheckLevel, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)

    [check] = await found("programs", run_as=run_as)

    assert check.health is level
    assert said in check.found
    assert bool(check.advice) is (level is not CheckLevel.OK)
