"""What programs leave in spools: each line is judged as if its run had sent it, and none that was spooled is lost."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamsched.access.authentication import PERSON_OF_DEV
from streamsched.access.event_intake import EventIntake
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.run_spools import PAUSE_S, RunSpools
from streamsched.admin.doctor import CheckLevel, examine
from streamsched.codec import event as event_codec
from streamsched.config import Settings
from streamsched.domain.access.grant import Caller
from streamsched.domain.jobs.run import RunState, file_name
from streamsched.domain.jobs.spool import SpoolingRun
from streamsched.domain.quotas.limited import Quota
from streamsched.log.records import records
from streamsched.log.topics import PUBLIC
from streamsched.ports.broker import TopicPartition
from streamsched.roles.services import Services, open_services
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.access.spools import SpoolStore
from streamsched.store.runs.run_commits import RunCommitStore
from streamsched.store.server.probe import DatabaseProbe
from streamsched.telemetry.metrics import Metrics
from tests.support.services import need
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

RUN = "sales.shop.b.manual-1.r1"
DONE = "sales.shop.b.manual-2.r1"


def partitions(dataset: str, event_id: str) -> dict[str, Any]:
    data = {"dataset": dataset, "partitions": ["d=1"]}
    return {"id": event_id, "source": "x", "time": "2026-01-01T00:00:00Z", "type": "partitions.added", "data": data}


def status(program: str, event_id: str) -> dict[str, Any]:
    data = {"program": program, "run": f"{program}.manual-9.r1", "outcome": "succeeded"}
    return {"id": event_id, "source": "x", "time": "2026-01-01T00:00:00Z", "type": "program.status", "data": data}


def spool(folder: Path, *events: Any, name: str = "0000000000001-1-a.events") -> Path:
    """A file as a program writes it by hand."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [each if isinstance(each, bytes) else orjson.dumps(each) for each in events]
    path = folder / name
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@pytest.fixture
async def services(database: str) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database)) as services:
        yield services


class Host:
    """A launcher's host: its folder of spools, and what drains them."""

    def __init__(self, services: Services, folder: Path) -> None:
        self.services = services
        self.folder = folder
        self.metrics = Metrics()

    def spools(
        self,
        *,
        person: Caller | None = None,
        owner_of: Callable[[SpoolingRun], int] | None = None,
    ) -> RunSpools:
        services = self.services
        quotas = QuotaWatch(QuotaStore(services.pool), services.clock, "spools", self.metrics)
        shards = services.layout.unkeyed_partitions
        intake = EventIntake(
            services.broker, shards, quotas, services.clock, self.metrics, RunCommitStore(services.pool)
        )
        store = SpoolStore(services.pool)
        return RunSpools(self.folder, store, intake, host="here", person=person, owner_of=owner_of)

    async def add_run(self, run: str, *, ended: bool = False) -> None:
        state, program = RunState.FAILED if ended else RunState.PENDING, run.split(".manual", maxsplit=1)[0]
        await StoredWorld(self.services.pool).add_run(run, program=program, at=self.services.clock.now(), state=state)

    async def logged(self) -> set[str]:
        """Ids of the events on the public topics."""
        found: set[str] = set()
        for topic in PUBLIC:
            for partition in range(self.services.layout.unkeyed_partitions):
                async for record in records(self.services.broker, TopicPartition(topic, partition)):
                    assert record.value is not None
                    event = event_codec.decode(record.value, fallback_id="-", fallback_time=self.services.clock.now())
                    found.add(event.id)
        return found

    def refused(self) -> str:
        found = (path for path in sorted(self.folder.rglob("*.refused")) if path.is_file() and not path.is_symlink())
        return b"".join(path.read_bytes() for path in found).decode()

    def waiting(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self.folder.rglob("*.events"))


@pytest.fixture
def host(services: Services, tmp_path: Path) -> Host:
    return Host(services, tmp_path / "spool")


async def test_a_line_in_a_spool_announces_only_what_its_run_may_announce(host: Host) -> None:
    await host.add_run(RUN)
    tick = {
        **partitions("a", "tick"),
        "type": "tick",
        "data": {"schedule": "sales.shop.s", "at": "2026-01-01T00:00:00Z"},
    }
    spool(
        host.folder / RUN,
        partitions("finance.raw", "forged"),
        partitions("sales.raw", "own"),
        status("finance.shop.b", "forged-status"),
        b"garbage",
        tick,
    )
    assert await host.spools().run_once() == PAUSE_S

    assert await host.logged() == {"own"}
    refused = host.refused()
    assert "no permission to emit in namespace 'finance'" in refused
    assert f"run:{RUN}" in refused
    assert all(name in refused for name in ("forged", "forged-status", "garbage"))
    assert host.waiting() == 0
    assert b"streamsched_spool_lines_refused_total 4.0" in host.metrics.render()
    checks = await examine(
        broker=host.services.broker,
        probe=DatabaseProbe(host.services.pool),
        clock=host.services.clock,
        specs=(),
        revisions=(),
    )
    [check] = [each for each in checks if each.check == "spools"]
    assert check.health is CheckLevel.WARNING
    assert f"4 lines of run {RUN} on here were refused" in check.found


async def test_a_run_is_known_by_its_row_after_its_end_and_from_history(host: Host) -> None:
    await host.add_run(RUN, ended=True)
    await host.services.pool.execute(
        "SELECT make_part_v1('runs_history', at, at + interval '1 month') FROM date_trunc('month', now()) AS at"
    )
    await host.services.pool.execute(
        "INSERT INTO runs_history (done_at, id, program, state, created_at, record)"
        " VALUES (now(), $1, 'sales.shop.b', 'COMPLETED', now(), '{}')",
        DONE,
    )
    for run in (RUN, DONE):
        spool(host.folder / run, partitions("sales.raw", f"of {run}"), partitions("finance.raw", f"forged by {run}"))
    (host.folder / "sales.shop.b.manual-3.r1").mkdir()
    await host.add_run("sales.shop.b.manual-3.r1", ended=True)
    await host.spools().run_once()

    assert await host.logged() == {f"of {RUN}", f"of {DONE}"}
    kept = {path.name for path in host.folder.iterdir()}
    assert kept == {RUN, DONE}, "an empty folder of an ended run goes, one with refused lines stays"


async def test_a_folder_of_a_run_with_a_long_id_is_that_runs(host: Host) -> None:
    """A folder cannot have the name of such a run."""
    runs = [f"sales.{'a' * 200}.{'p' * 200}.manual-{number}.r1" for number in (1, 2)]
    for run, ended in zip(runs, (False, True), strict=True):
        await host.add_run(run, ended=ended)
        spool(
            host.folder / file_name(run), partitions("sales.new", run[-4:]), partitions("finance.new", f"no{run[-4:]}")
        )
    stranger = file_name(f"finance.{'a' * 300}.manual-1.r1")
    spool(host.folder / stranger, partitions("finance.new", "stranger"))

    await host.spools().run_once()

    assert await host.logged() == {"1.r1", "2.r1"}
    assert all(host.refused().count(each) == 1 for each in ("no1.r1", "no2.r1"))
    assert "stranger" in host.refused()


async def test_what_lies_in_no_folder_of_a_known_run_is_refused_and_in_dev_the_persons(host: Host) -> None:
    spool(host.folder, partitions("sales.raw", "loose"))
    spool(host.folder / "finance.pay.b.manual-1.r1", partitions("finance.raw", "unknown"))
    spool(host.folder / "outside-runs", partitions("sales.raw", "outside"))
    await host.spools().run_once()

    assert await host.logged() == set()
    refused = host.refused()
    assert "it lies in no folder of a run" in refused
    assert "no run 'finance.pay.b.manual-1.r1' is known" in refused
    assert host.waiting() == 0

    spool(host.folder, partitions("sales.raw", "loose2"))
    spool(host.folder / "finance.pay.b.manual-1.r1", partitions("finance.raw", "unknown2"))
    spool(host.folder / "outside-runs", partitions("finance.raw", "outside2"))
    await host.spools(person=PERSON_OF_DEV).run_once()
    assert await host.logged() == {"loose2", "outside2"}


async def test_over_a_quota_a_line_waits_and_another_namespace_goes_on(host: Host) -> None:
    await QuotaStore(host.services.pool).set("sales", Quota.EVENTS, 1, "a test", now=host.services.clock.now())
    other = "finance.pay.b.manual-1.r1"
    for run in (RUN, other):
        await host.add_run(run)
    count = 2000  # four requests; each is taken whole as long as the one before left something
    spool(host.folder / RUN, *[partitions("sales.raw", f"s{n}") for n in range(count)])
    spool(host.folder / other, *[partitions("finance.raw", f"f{n}") for n in range(count)])
    spools = host.spools()
    await spools.run_once()
    await spools.run_once()

    logged = await host.logged()
    assert {each for each in logged if each.startswith("f")} == {f"f{n}" for n in range(count)}
    sent = sum(each.startswith("s") for each in logged)
    assert 0 < sent < count
    assert host.waiting() == count - sent
    assert host.refused() == ""


async def test_a_folder_or_file_of_another_user_is_not_believed(host: Host) -> None:
    await host.add_run(RUN)
    path = spool(host.folder / RUN, partitions("sales.raw", "planted"))
    stranger = os.geteuid() + 1
    await host.spools(owner_of=lambda run: stranger if run.program.namespace == "sales" else 0).run_once()
    assert await host.logged() == set()
    assert f"belongs to user {os.geteuid()}, not {stranger}" in host.refused()
    assert not path.exists()


async def test_the_rest_of_a_file_stays_its_owners(host: Host) -> None:
    need("a user who may give files to another", os.geteuid() == 0, "run the tests as root")
    await host.add_run(RUN)
    stranger = 12345
    path = spool(host.folder / RUN, *[partitions("sales.raw", f"{n}") for n in range(2000)])
    for each in (host.folder / RUN, path):
        os.chown(each, stranger, stranger)
    await QuotaStore(host.services.pool).set("sales", Quota.EVENTS, 1, "a test", now=host.services.clock.now())
    spools = host.spools(owner_of=lambda _: stranger)
    await spools.run_once()
    assert 0 < host.waiting() < 2000
    assert path.stat().st_uid == stranger
    await QuotaStore(host.services.pool).unset("sales", Quota.EVENTS, "", now=host.services.clock.now())
    await host.spools(owner_of=lambda _: stranger).run_once()
    assert host.waiting() == 0
    assert len(await host.logged()) == 2000


async def test_hostile_files_of_one_run_stop_no_other(host: Host) -> None:
    other = "sales.shop.c.manual-1.r1"
    for run in (RUN, other):
        await host.add_run(run)
    folder = host.folder / RUN
    folder.mkdir(parents=True)
    (folder / "0-link.events").symlink_to("/etc/passwd")
    os.mkfifo(folder / "0-pipe.events")
    with (folder / "0-huge.events").open("wb") as file:
        file.truncate(1 << 40)
    for n in range(1000):
        spool(folder, b"[" * 1000, name=f"1-{n:04}.events")
    spool(folder, partitions("sales.raw", "last"), name="2-last.events")
    spool(host.folder / other, partitions("sales.raw", "other"))
    spools = host.spools()

    assert await spools.run_once() == 0.0, "one turn is bounded, and there is more"
    assert await host.logged() == {"other"}
    rounds = 1
    while await spools.run_once() == 0.0:
        rounds += 1
    assert await host.logged() == {"other", "last"}
    assert rounds >= 10
    assert (folder / "0-link.events.refused").is_symlink()
