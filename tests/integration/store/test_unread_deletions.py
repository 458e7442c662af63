"""Records that were deleted unread are still told of after their worker has gone: by the doctor and by why-not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.admin.checks.check_result import CheckLevel
from streamsched.admin.doctor import examine
from streamsched.launcher.whynot import explain_no_run
from streamsched.ports.broker import TopicPartition
from streamsched.ports.clock import SystemClock
from streamsched.ports.reports import ShardReport, UnreadDeletion
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.server.probe import DatabaseProbe
from streamsched.store.server.reports import PostgresReportStore

from .conftest import CatalogProcess, schedule

pytestmark = pytest.mark.postgres

HOUR = timedelta(hours=1)


def report(epoch: int, *deleted: UnreadDeletion) -> ShardReport:
    at = {TopicPartition("partitions", 0): 500}
    return ShardReport(0, epoch, "reading", 1.0, 1.0, 1, 0.1, 0, 0, at, 0.0, deleted)


async def test_a_span_stays_until_there_is_another(scheduler_on_one_clock: CatalogProcess) -> None:
    scheduler = scheduler_on_one_clock
    now = (await DatabaseProbe(scheduler.pool).facts()).now
    reports = PostgresReportStore(scheduler.pool)
    span = UnreadDeletion(now - HOUR, "partitions", 0, 100, 500)
    await reports.save("a", [report(1, span)])
    await reports.save("b", [report(2)])

    assert (await DatabaseProbe(scheduler.pool).facts()).deletions == [span]
    assert (await reports.positions())[TopicPartition("partitions", 0)] == 500
    status = await scheduler.reader.schedule(schedule().ref)
    for since, until, told in (2 * HOUR, HOUR / 2, True), (HOUR / 2, timedelta(0), False):
        begin, end = now - since, now - until
        found = await JobStore(scheduler.pool).span(schedule().ref, since=begin, until=end)
        summary = explain_no_run(status, found, since=begin, until=end).summary
        assert (
            "deleted from the log before they were read: 400 of partitions/0, from 100 up to 499" in summary
        ) is told

    findings = await examine(
        broker=scheduler.broker, probe=DatabaseProbe(scheduler.pool), clock=SystemClock(), specs=(), revisions=()
    )
    (finding,) = [each for each in findings if each.check == "unread records"]
    assert finding.health is CheckLevel.FAILED
    assert "400 of partitions/0, from 100 up to 499" in finding.found

    newer = span._replace(at=now, first=900, next=901)
    await reports.save("b", [report(2, newer)])
    assert (await DatabaseProbe(scheduler.pool).facts()).deletions == [newer]
