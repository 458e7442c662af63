"""What `doctor` says about time: the database's clock, machines, and rules of zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from streamsched.admin.checks.check_result import CheckLevel
from streamsched.admin.checks.clock_checks import clock_checks
from streamsched.domain.clock_judge import ClockFact, ClockRecord
from streamsched.store.server.clock_judgements import ClockState
from streamsched.store.server.probe import ZoneUse
from streamsched.store.server.processes import ProcessRow

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
YEAR = timedelta(days=365)
RIGHT = ClockState(NOW, ClockRecord())


def process(name: str, tzdata: str = "2026a", ahead_s: float = 0.0, host: str = "h1") -> ProcessRow:
    return ProcessRow(name, "launcher", host, 1, "1", tzdata, ahead_s)


def said(
    clock: ClockState | None = RIGHT, processes: tuple[ProcessRow, ...] = (), zones: tuple[ZoneUse, ...] = ()
) -> dict[str, tuple[CheckLevel, str]]:
    return {each.check: (each.health, each.found) for each in clock_checks(clock, processes, zones)}


def test_a_clock_that_has_jumped_fails_and_one_that_was_judged_says_by_whom() -> None:
    jumped = ClockState(NOW + YEAR, ClockRecord(1, YEAR, NOW), ClockFact.JUMPED, NOW, "launcher-1")
    back = ClockState(NOW, ClockRecord(1, -YEAR, NOW), ClockFact.JUMPED, NOW, "launcher-1")
    right = ClockState(NOW, ClockRecord(2), ClockFact.CONFIRMED, NOW, "ann")

    assert said()["time"] == (CheckLevel.OK, "PostgreSQL's clock has not jumped")
    level, found = said(jumped)["time"]
    assert level is CheckLevel.FAILED
    assert "jumped 365d ahead at 2026-11-27 12:00:00Z; it says 2027-11-27 12:00:00Z" in found
    assert "jumped 365d back" in said(back)["time"][1]
    assert said(right)["time"][1] == "PostgreSQL's clock is right: confirmed at 2026-11-27 12:00:00Z by ann"
    assert "time" not in said(None)


def test_processes_with_other_rules_of_zones_are_named() -> None:
    same = said(processes=(process("a"), process("b")))["time zones"]
    other = said(processes=(process("a"), process("b", "2025b"), process("c")))["time zones"]

    assert same == (CheckLevel.OK, "tzdata 2026a, as 2 processes say")
    assert other == (
        CheckLevel.WARNING,
        "processes have different releases of tzdata: 2025b: b; 2026a: a, c",
    )
    assert said()["time zones"][1].startswith("tzdata 20")


def test_a_machine_whose_clock_is_wrong_is_a_warning() -> None:
    found = said(processes=(process("a", ahead_s=86400.0), process("b", ahead_s=0.1), process("c", "2026a", -3, "h2")))

    assert found["clock of h1"] == (CheckLevel.WARNING, "86400.0 s ahead of PostgreSQL's")
    assert found["clock of h2"] == (CheckLevel.WARNING, "3.0 s behind PostgreSQL's")


def test_zones_that_are_not_ianas_are_named() -> None:
    zones = (ZoneUse("Europe/Berlin", 3, "a.b.c"), ZoneUse("localtime", 2, "a.b.d"))

    assert said(zones=zones[:1]).keys() == {"time", "time zones"}
    assert said(zones=zones)["zones of schedules"][1] == "not IANA's: localtime (2, such as a.b.d)"
