"""What `doctor` says about the wall between namespaces, from the facts that it gets."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.admin.checks.check_result import CheckLevel, CheckResult
from streamsched.admin.doctor import examine
from streamsched.ports.broker import Broker
from streamsched.ports.clock import SystemClock
from streamsched.store.server.probe import DatabaseFacts, DatabaseProbe


class Probe(DatabaseProbe):
    """A database with these pending grants."""

    def __init__(self, grants: tuple[str, ...] = (), total: int = 0) -> None:
        self._grants, self._total = grants, total

    async def facts(self) -> DatabaseFacts:
        return DatabaseFacts(
            server="17",
            revision="1",
            now=datetime.now(UTC),
            forbidden=(),
            outbox=0,
            outbox_since=None,
            leases=(),
            hidden={},
            late=0.0,
            pending_grants=self._grants,
            pending_grants_total=self._total,
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
