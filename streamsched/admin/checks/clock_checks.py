"""Checks of time: PostgreSQL's clock, the clocks of the machines, and whose rules of zones the ticks follow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from streamsched.admin.checks.check_result import CheckLevel, CheckResult
from streamsched.domain.time.zone import tzdata_version, zone_names
from streamsched.store.server.clock_judgements import ClockState
from streamsched.store.server.probe import ZoneUse
from streamsched.store.server.processes import ProcessRow, machines_ahead

#: Seconds by which a machine's clock may differ, and a difference that is a failure.
SKEW_OK: Final = 1.0
SKEW_BAD: Final = 30.0
#: Machines, processes or zones that a finding names.
_NAMED: Final = 10


def clock_checks(
    clock: ClockState | None, processes: Sequence[ProcessRow], zones: Sequence[ZoneUse]
) -> Iterator[CheckResult]:
    """The checks, from what the database knows; `clock` is None on a schema without judgements."""
    if clock is not None:
        yield _judge_clock(clock)
    yield from _machines(processes)
    yield _rules(processes)
    yield from _zones(zones)


def skew(check: str, seconds: float) -> CheckResult:
    """How far a clock is from the one that it is compared with, here."""
    off = f"{max(0.0, seconds):.1f} s from the local clock"
    if seconds <= SKEW_OK:
        return CheckResult(check, CheckLevel.OK, "equals the local clock")
    health = CheckLevel.WARNING if seconds <= SKEW_BAD else CheckLevel.FAILED
    return CheckResult(
        check, health, off, "synchronise both with NTP: ticks, windows and deadlines go by the database's"
    )


def _judge_clock(clock: ClockState) -> CheckResult:
    check = "time"
    if clock.doubt is None:
        found = "PostgreSQL's clock has not jumped"
        if clock.fact is not None and clock.at is not None:
            found = f"PostgreSQL's clock is right: {clock.fact} at {clock.at:%Y-%m-%d %H:%M:%S}Z by {clock.judged_by}"
        return CheckResult(check, CheckLevel.OK, found)
    return CheckResult(
        check,
        CheckLevel.FAILED,
        f"PostgreSQL's clock {clock.doubt}. Ticks go on by the time before; nothing expires, is killed or deleted",
        "set its clock right, or, if it is right, `streamsched clock confirm`",
    )


def _machines(processes: Sequence[ProcessRow]) -> Iterator[CheckResult]:
    """At most a warning for each machine: no time is taken from its clock."""
    for host, seconds in list(machines_ahead(processes).items())[:_NAMED]:
        if abs(seconds) > SKEW_OK:
            found = f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} PostgreSQL's"
            advice = "synchronise it with NTP: its logs name other times, and it cannot help to judge a jump"
            yield CheckResult(f"clock of {host}", CheckLevel.WARNING, found, advice)


def _rules(processes: Sequence[ProcessRow]) -> CheckResult:
    check, by_version = "time zones", dict[str, list[str]]()
    for each in processes:
        by_version.setdefault(each.tzdata, []).append(each.id)
    if len(by_version) <= 1:
        version = next(iter(by_version), tzdata_version())
        many = f", as {len(processes)} processes say" if processes else ""
        return CheckResult(check, CheckLevel.OK, f"tzdata {version}{many}")
    named = "; ".join(f"{version}: {_join_names(by_version[version])}" for version in sorted(by_version))
    advice = "install the same release of the package tzdata everywhere: processes compute different ticks"
    return CheckResult(check, CheckLevel.WARNING, f"processes have different releases of tzdata: {named}", advice)


def _zones(zones: Sequence[ZoneUse]) -> Iterator[CheckResult]:
    unknown: Mapping[str, ZoneUse] = {each.zone: each for each in zones if each.zone not in zone_names()}
    if unknown:
        named = _join_names([f"{each.zone} ({each.schedules}, such as {each.example})" for each in unknown.values()])
        advice = "deploy them with IANA's names: others mean what each launcher's machine makes of them"
        yield CheckResult("zones of schedules", CheckLevel.WARNING, f"not IANA's: {named}", advice)


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
