"""The check-up: is everything there, alive, in step, and allowed? Each check says what it found and what to do.

It changes nothing in the installation, but opens (and so fences) a writer of its own name, to see that it may.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from streamsched.admin.changelog import lags
from streamsched.admin.topics import check_topics
from streamsched.domain.errors import StreamschedError
from streamsched.ports.archive import Kept
from streamsched.ports.broker import Broker, TopicPartition, TopicSpec
from streamsched.ports.clock import Clock
from streamsched.ports.leases import is_shard_lease, part_lease, shard_lease
from streamsched.ports.probe import DatabaseFacts, DatabaseProbe
from streamsched.ports.topics import DEAD_LETTER, SIGNALS

#: Clocks may differ by this many seconds without and with a warning; more is a failure.
_SKEW_OK: Final = 1.0
_SKEW_BAD: Final = 30.0
#: Records a shard may be behind, seconds the outbox and timers may be late, without a warning.
_LAG_OK: Final = 10_000
_LATE_OK: Final = 30.0


class Health(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, what was found, and for what is not well what to do."""

    check: str
    health: Health
    found: str
    advice: str = ""


def worst(findings: Sequence[Finding]) -> Health:
    """The worst of them."""
    order = list(Health)
    return max((each.health for each in findings), key=order.index, default=Health.OK)


async def examine(
    *, broker: Broker, probe: DatabaseProbe, clock: Clock, specs: Sequence[TopicSpec], revisions: Sequence[str]
) -> Sequence[Finding]:
    """All checks, in the order in which one should mend. One that cannot be made says so and stops none of the others.

    `revisions`: of the schema this release is made for.
    """
    findings: list[Finding] = []
    try:
        before = clock.now()
        facts = await probe.facts()
        findings += _database(facts, revisions, before, clock.now())
    except StreamschedError as exc:
        facts = None
        findings.append(Finding("database", Health.FAILED, str(exc), "check STREAMSCHED_DATABASE_URL"))
    try:
        findings += [each async for each in _log(broker, specs)]
        if facts is not None:
            findings += [each async for each in _work(broker, facts)]
    except StreamschedError as exc:
        findings.append(Finding("log", Health.FAILED, str(exc), "check STREAMSCHED_BROKER_URL"))
    return findings


def _database(facts: DatabaseFacts, revisions: Sequence[str], before: datetime, after: datetime) -> Sequence[Finding]:
    found = [Finding("database", Health.OK, f"PostgreSQL {facts.server} answers")]
    if facts.revision in revisions:
        found.append(Finding("schema", Health.OK, f"revision {facts.revision}"))
    else:
        wanted = f"this release wants {', '.join(revisions)}"
        found.append(Finding("schema", Health.FAILED, f"revision {facts.revision}; {wanted}", "streamsched migrate"))
    if facts.forbidden:
        listed = ", ".join(facts.forbidden[:5]) + (" …" if len(facts.forbidden) > 5 else "")
        found.append(Finding("permissions", Health.FAILED, f"may not {listed}", "GRANT it to the user of the URL"))
    else:
        found.append(Finding("permissions", Health.OK, "every table may be read and written"))
    found += [_kept(table) for table in facts.history]
    found.append(_skew("clock of the database", max((before - facts.now, facts.now - after)).total_seconds()))
    return found


def _kept(table: Kept) -> Finding:
    since = "nothing yet" if table.oldest is None else f"since {table.oldest:%Y-%m-%d}"
    return Finding(f"history in {table.table}", Health.OK, f"{since}, {table.bytes / 1_000_000:.1f} MB")


def _skew(check: str, seconds: float) -> Finding:
    off = f"{max(0.0, seconds):.1f} s from the clock here"
    if seconds <= _SKEW_OK:
        return Finding(check, Health.OK, "as here")
    health = Health.WARNING if seconds <= _SKEW_BAD else Health.FAILED
    return Finding(check, health, off, "let NTP set both: ticks, windows and deadlines are judged by clocks")


async def _log(broker: Broker, specs: Sequence[TopicSpec]) -> AsyncIterator[Finding]:
    wrong = [report for report in await check_topics(broker, specs) if report.wrong]
    for report in wrong:
        advice = "streamsched topics create" if report.partitions is None else "streamsched reshard, or its old number"
        yield Finding(f"topic {report.spec.name}", Health.FAILED, report.wrong, advice)
    if not wrong:
        yield Finding("topics", Health.OK, f"all {len(specs)} are there")
    able = broker.capabilities
    missing = [name for name in ("fenced", "transactional", "durable") if not getattr(able, name)]
    if missing:
        yield Finding("broker", Health.WARNING, f"is not {', '.join(missing)}", "a crash may double or lose jobs")
    else:
        yield Finding("broker", Health.OK, "fenced, transactional, durable")
    try:
        writer = await broker.writer("doctor")
        await writer.close()
        yield Finding("permissions of the log", Health.OK, "a writer can be opened")
    except StreamschedError as exc:
        yield Finding("permissions of the log", Health.FAILED, str(exc), "allow transactional writers to this user")


async def _work(broker: Broker, facts: DatabaseFacts) -> AsyncIterator[Finding]:
    shards = await broker.partitions(SIGNALS)
    held = {lease.name: lease for lease in facts.leases if lease.live}
    idle = [number for number in range(shards) if shard_lease(number) not in held]
    owners = {lease.owner for name, lease in held.items() if is_shard_lease(name)}
    if idle:
        advice = "start a `streamsched worker`"
        yield Finding("shards", Health.FAILED, f"nobody runs {', '.join(map(str, idle))} of {shards}", advice)
    else:
        yield Finding("shards", Health.OK, f"{shards} on {len(owners)} worker{'s' if len(owners) > 1 else ''}")
    for part in ("relay", "intake", "progress"):
        if part_lease(part) not in held:
            yield Finding(part, Health.FAILED, "nobody plays this part", "start a `streamsched launcher`")
    for shard, lag in (await lags(broker, shards)).items():
        if (behind := sum(lag.values())) > _LAG_OK:
            yield Finding(f"lag of shard {shard}", Health.WARNING, f"{behind} records behind", "add workers")
    yield _timely("outbox", _since(facts), f"{facts.outbox} records wait for the log")
    yield _timely("timers", facts.late, "ticks and wake-ups are late")
    at = [TopicPartition(DEAD_LETTER, number) for number in range(await broker.partitions(DEAD_LETTER))]
    ends = await broker.ends(at)
    letters = sum(max(0, ends[place] - facts.hidden.get(place.partition, 0)) for place in at)
    if letters:
        yield Finding("dead letters", Health.WARNING, f"up to {letters} are not put away", "streamsched dlq list")
    else:
        yield Finding("dead letters", Health.OK, "none that is not put away")


def _since(facts: DatabaseFacts) -> float:
    return 0.0 if facts.outbox_since is None else (facts.now - facts.outbox_since).total_seconds()


def _timely(check: str, late: float, found: str) -> Finding:
    if late <= _LATE_OK:
        return Finding(check, Health.OK, "in time")
    return Finding(check, Health.WARNING, f"{found}, by {late:.0f} s", "is a `streamsched launcher` alive?")
