"""Checks of an installation: schema, log, shards, roles, clocks, zones, permissions, disks, memory. Each reports a
finding and advice.

Read-only, except that it opens (and so fences) a writer of its own name to check the permission.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from streamsched.admin.changelog import lags
from streamsched.admin.checks.check_result import CheckLevel, CheckResult
from streamsched.admin.checks.clock_checks import clock_checks, skew
from streamsched.admin.checks.host_checks import host_checks
from streamsched.admin.checks.java import OLDEST, Java, find_java
from streamsched.admin.checks.prepared_drivers import PreparedMemory, prepared_memory
from streamsched.admin.topics import check_topics
from streamsched.domain.errors import InvalidDefinitionError, StreamschedError
from streamsched.domain.jobs.spool import RefusedLines
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.log.topics import DEAD_LETTER, SIGNALS
from streamsched.ports.broker import Broker, TopicPartition, TopicSpec
from streamsched.ports.clock import Clock
from streamsched.ports.leases import is_shard_lease, role_lease, shard_lease
from streamsched.ports.reports import UnreadDeletion
from streamsched.process.separation import find_unseparated
from streamsched.store.partitioned import ArchiveTable
from streamsched.store.server.probe import DatabaseFacts, DatabaseProbe, HeldSnapshot

#: Lag of a shard in records, and delay of outbox and timers in seconds, above which a warning is given.
_LAG_OK: Final = 10_000
_LATE_OK: Final = 30.0
#: Seconds that a transaction may hold its snapshot.
_SNAPSHOT_OK: Final = 600.0
#: Namespaces that a finding names.
_NAMED: Final = 10
#: What waits longer is more than a burst.
_BACKLOG_OK: Final = timedelta(seconds=10)


async def examine(
    *,
    broker: Broker,
    probe: DatabaseProbe,
    clock: Clock,
    specs: Sequence[TopicSpec],
    revisions: Sequence[str],
    environ: Mapping[str, str] | None = None,
) -> Sequence[CheckResult]:
    """All checks, in the order in which to repair. A check that cannot run is a failed finding; the others still run.

    `revisions`: schema revisions this release supports. `environ`: of this process, to find Java, what separates
    programs, and the data folder; None skips the checks of its machine.
    """
    findings: list[CheckResult] = []
    try:
        before = clock.now()
        facts = await probe.facts()
        findings += _database(facts, revisions, before, clock.now())
    except StreamschedError as exc:
        facts = None
        findings.append(CheckResult("database", CheckLevel.FAILED, str(exc), "check STREAMSCHED_DATABASE_URL"))
    try:
        findings += [each async for each in _log(broker, specs)]
        if facts is not None:
            findings += [each async for each in _work(broker, facts)]
    except StreamschedError as exc:
        findings.append(CheckResult("log", CheckLevel.FAILED, str(exc), "check STREAMSCHED_BROKER_URL"))
    if environ is not None:
        findings.append(_java(await asyncio.to_thread(find_java, environ)))
        findings += _prepared_drivers(await asyncio.to_thread(prepared_memory))
        findings += _separation(environ)
        findings += await asyncio.to_thread(lambda: list(host_checks(environ)))
    return findings


def _java(found: Java | None) -> CheckResult:
    """At most a warning: Spark programs need Java where launchers run, which may be another machine."""
    check, where = "java", f"on {socket.gethostname()}"
    advice = f"where launchers run, install Java {OLDEST} (Debian: openjdk-{OLDEST}-jre-headless) or set JAVA_HOME"
    if found is None:
        return CheckResult(check, CheckLevel.WARNING, f"none {where}: Spark programs would fail here", advice)
    if found.major is None:
        return CheckResult(check, CheckLevel.WARNING, f"{found.path} {where} does not report its version", advice)
    if found.major < OLDEST:
        return CheckResult(
            check, CheckLevel.WARNING, f"{found.path} {where} is Java {found.major}, too old for Spark", advice
        )
    return CheckResult(check, CheckLevel.OK, f"Java {found.major} {where} ({found.path})")


def _prepared_drivers(found: PreparedMemory | None) -> Sequence[CheckResult]:
    """What prepared Spark drivers hold where this process runs; nothing without any."""
    if found is None or not found.drivers:
        return []
    held = f"hold {found.java / 1e6:.0f} MB (Java) and {found.python / 1e6:.0f} MB"
    return [CheckResult("prepared drivers", CheckLevel.OK, f"{found.drivers} on {socket.gethostname()} {held}")]


def _separation(environ: Mapping[str, str]) -> Sequence[CheckResult]:
    """What separates programs where this process runs; of launchers elsewhere, their logs say it."""
    check = "programs"
    try:
        users = ProgramUsers.parse(environ.get("STREAMSCHED_RUN_AS", ""))
        remaining = find_unseparated(users)
    except InvalidDefinitionError as exc:
        return [CheckResult(check, CheckLevel.FAILED, str(exc), "correct STREAMSCHED_RUN_AS")]
    if not remaining:
        return [CheckResult(check, CheckLevel.OK, f"all run as users of their own on {socket.gethostname()}")]
    advice = "name users by STREAMSCHED_RUN_AS where namespaces must not trust each other"
    level = CheckLevel.WARNING if os.geteuid() == 0 else CheckLevel.OK
    return [CheckResult(check, level, each, advice if level is CheckLevel.WARNING else "") for each in remaining]


def _database(
    facts: DatabaseFacts, revisions: Sequence[str], before: datetime, after: datetime
) -> Sequence[CheckResult]:
    found = [CheckResult("database", CheckLevel.OK, f"PostgreSQL {facts.server} answers")]
    if facts.revision in revisions:
        found.append(CheckResult("schema", CheckLevel.OK, f"revision {facts.revision}"))
    else:
        wanted = f"this release needs {', '.join(revisions)}"
        found.append(
            CheckResult("schema", CheckLevel.FAILED, f"revision {facts.revision}; {wanted}", "streamsched migrate")
        )
    if facts.forbidden:
        listed = ", ".join(facts.forbidden[:5]) + (" …" if len(facts.forbidden) > 5 else "")
        found.append(
            CheckResult("permissions", CheckLevel.FAILED, f"missing: {listed}", "GRANT it to the user of the URL")
        )
    else:
        found.append(CheckResult("permissions", CheckLevel.OK, "every table is readable and writable"))
    found += [_history_size(table) for table in facts.history]
    found += [_refused_spool(each) for each in facts.refused_spools]
    if facts.pending_grants:
        found.append(_pending_grants(facts.pending_grants, facts.pending_grants_total))
    if facts.executing:
        found.append(_programs_on_launchers(facts.executing))
    found.append(skew("clock of the database", max((before - facts.now, facts.now - after)).total_seconds()))
    found.append(_snapshot(facts.snapshot))
    found += [_deleted_unread(each) for each in facts.deletions[:_NAMED]]
    found += [_backlog(name, facts.now - since) for name, since in list(facts.backlogs.items())[:_NAMED]]
    found += clock_checks(facts.clock, facts.processes, facts.zones)
    return found


def _snapshot(held: HeldSnapshot | None) -> CheckResult:
    """A held snapshot keeps the dead rows of every table: queues get slower by the minute."""
    check = "transactions"
    if held is None or held.age < _SNAPSHOT_OK:
        return CheckResult(check, CheckLevel.OK, f"none is older than {_SNAPSHOT_OK / 60:.0f} minutes")
    found = f"{held.holder} keeps one open since {held.age / 60:.0f} minutes, so dead rows cannot be removed"
    return CheckResult(check, CheckLevel.WARNING, found, "end it: pg_terminate_backend, ROLLBACK PREPARED")


def _deleted_unread(found: UnreadDeletion) -> CheckResult:
    """Events that nobody has counted: their producers, or a copy of them, are the only place where they still are."""
    return CheckResult(
        "unread records",
        CheckLevel.FAILED,
        f"deleted from the log before they were read: {found.text}, seen at {found.at:%Y-%m-%d %H:%M:%S}Z",
        "send those events again, their ids make repeats harmless; keep the topic longer than workers are ever away: "
        "STREAMSCHED_RETENTION, and retention.ms and retention.bytes of Kafka's topic",
    )


def _backlog(namespace: str, age: timedelta) -> CheckResult:
    """It has sent more than is processed; others are not held up."""
    whose = f"of namespace '{namespace}'" if namespace else "that are no events"
    return CheckResult(
        "backlogs",
        CheckLevel.WARNING if age > _BACKLOG_OK else CheckLevel.OK,
        f"records {whose} have waited for {max(0.0, age.total_seconds()):.0f} s behind others of theirs",
        "see what sends so many; more workers take more; the quota events_per_second limits what comes over HTTP",
    )


def _programs_on_launchers(programs: Mapping[str, int]) -> CheckResult:
    named = list(programs.items())[:_NAMED]
    listed = ", ".join(f"{count} in {namespace}" for namespace, count in named) + (
        " …" if len(programs) > _NAMED else ""
    )
    said = f"{sum(programs.values())} programs ({listed})"
    since = "deployed by holders of `shell`, or before Spark programs needed it"
    return CheckResult("execution on launchers", CheckLevel.OK, f"{said}, {since}")


def _history_size(table: ArchiveTable) -> CheckResult:
    since = "nothing yet" if table.oldest is None else f"since {table.oldest:%Y-%m-%d}"
    return CheckResult(f"history in {table.table}", CheckLevel.OK, f"{since}, {table.bytes / 1_000_000:.1f} MB")


def _refused_spool(refused: RefusedLines) -> CheckResult:
    what = f"of run {refused.run}" if refused.run else "outside the folders of known runs"
    found = f"{refused.lines} lines {what} on {refused.host} were refused, the last at {refused.at:%Y-%m-%d %H:%M}"
    return CheckResult(
        "spools",
        CheckLevel.WARNING,
        f"{found}: {refused.reason}",
        "look at the `.refused` files in the spool folder there; what a run may not announce, its program must not",
    )


def _pending_grants(grants: Sequence[str], total: int) -> CheckResult:
    listed = ", ".join(grants) + (f" and {total - len(grants)} more" if total > len(grants) else "")
    advice = "their owners decide: streamsched grant list, give, refuse"
    return CheckResult("grants between namespaces", CheckLevel.WARNING, f"pending: {listed}", advice)


async def _log(broker: Broker, specs: Sequence[TopicSpec]) -> AsyncIterator[CheckResult]:
    wrong = [report for report in await check_topics(broker, specs) if report.wrong]
    for report in wrong:
        reshards = report.partitions not in (None, report.spec.partitions)
        advice = "streamsched reshard, or its old number" if reshards else "streamsched topics create"
        yield CheckResult(f"topic {report.spec.name}", CheckLevel.FAILED, report.wrong, advice)
    if not wrong:
        yield CheckResult("topics", CheckLevel.OK, f"all {len(specs)} exist")
    able = broker.capabilities
    missing = [name for name in ("fenced", "transactional", "durable") if not getattr(able, name)]
    if missing:
        yield CheckResult(
            "broker", CheckLevel.WARNING, f"is not {', '.join(missing)}", "a crash may duplicate or lose jobs"
        )
    else:
        yield CheckResult("broker", CheckLevel.OK, "fenced, transactional, durable")
    try:
        writer = await broker.writer("doctor")
        await writer.close()
        yield CheckResult("permissions of the log", CheckLevel.OK, "a writer can be opened")
    except StreamschedError as exc:
        yield CheckResult(
            "permissions of the log", CheckLevel.FAILED, str(exc), "allow transactional writers to this user"
        )


async def _work(broker: Broker, facts: DatabaseFacts) -> AsyncIterator[CheckResult]:
    shards = await broker.partitions(SIGNALS)
    held = {lease.name: lease for lease in facts.leases if lease.is_live}
    idle = [number for number in range(shards) if shard_lease(number) not in held]
    owners = {lease.owner for name, lease in held.items() if is_shard_lease(name)}
    if idle:
        advice = "start a `streamsched worker`"
        yield CheckResult("shards", CheckLevel.FAILED, f"not running: {', '.join(map(str, idle))} of {shards}", advice)
    else:
        yield CheckResult("shards", CheckLevel.OK, f"{shards} on {len(owners)} worker{'s' if len(owners) > 1 else ''}")
    for role in ("relay", "intake", "progress"):
        if role_lease(role) not in held:
            yield CheckResult(role, CheckLevel.FAILED, "no process runs this role", "start a `streamsched launcher`")
    for shard, lag in (await lags(broker, shards)).items():
        if (behind := sum(lag.values())) > _LAG_OK:
            yield CheckResult(f"lag of shard {shard}", CheckLevel.WARNING, f"{behind} records behind", "add workers")
    for reader, behind in (await _count_unread(broker, facts)).items():
        if behind > _LAG_OK:
            advice = "a launcher reads it: look for `interrupted` in the launchers' logs"
            yield CheckResult(f"reader of {reader}", CheckLevel.WARNING, f"{behind} records are unread", advice)
    yield _check_timeliness("outbox", _outbox_age_s(facts), f"{facts.outbox} records wait for the log")
    yield _check_timeliness("timers", facts.late, "ticks and wake-ups are overdue")
    at = [TopicPartition(DEAD_LETTER, number) for number in range(await broker.partitions(DEAD_LETTER))]
    ends = await broker.ends(at)
    letters = sum(max(0, ends[place] - facts.hidden.get(place.partition, 0)) for place in at)
    if letters:
        yield CheckResult(
            "dead letters", CheckLevel.WARNING, f"up to {letters} are not archived", "streamsched dlq list"
        )
    else:
        yield CheckResult("dead letters", CheckLevel.OK, "none that are not archived")


async def _count_unread(broker: Broker, facts: DatabaseFacts) -> Mapping[str, int]:
    """Records that readers outside the shards have not read: intakes of topics, and readers of the history."""
    found = {f"the history for {name}": lines for name, lines in facts.unread.items()}
    partitions = {topic: await broker.partitions(topic) for topic in {place.topic for place in facts.stored}}
    known = {place: at for place, at in facts.stored.items() if place.partition < partitions[place.topic]}
    ends = await broker.ends(list(known))
    for place, position in known.items():
        found[place.topic] = found.get(place.topic, 0) + max(0, ends[place] - position)
    return found


def _outbox_age_s(facts: DatabaseFacts) -> float:
    return 0.0 if facts.outbox_since is None else (facts.now - facts.outbox_since).total_seconds()


def _check_timeliness(check: str, late: float, found: str) -> CheckResult:
    if late <= _LATE_OK:
        return CheckResult(check, CheckLevel.OK, "in time")
    return CheckResult(
        check, CheckLevel.WARNING, f"{found}, by {late:.0f} s", "check that a `streamsched launcher` runs"
    )
