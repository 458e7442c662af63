"""The judge of `make trial KIND=dapr-real` finds what it must."""

from __future__ import annotations

from tests.dapr_real.judge import DaprVerdict, Planned, judge

PLANNED = {"once": Planned([10.0]), "often": Planned([10.0, 11.0, 12.0]), "fails": Planned([10.0], 3)}
GOOD = [
    (10.1, "once"),
    *((at, "often") for at in (10.0, 11.5, 12.1)),
    *((at, "fails") for at in (10.1, 11.1, 12.1)),
]


def test_a_good_run_has_nothing_wrong() -> None:
    found = judge(PLANNED, GOOD)

    assert (found.well, found.ticks, found.repeated) == (True, 5, 0)
    assert [round(each, 3) for each in sorted(found.late)] == [0.0, 0.1, 0.1, 0.1, 0.5]


def changed(*, without: str = "", more: tuple[tuple[float, str], ...] = ()) -> DaprVerdict:
    return judge(PLANNED, [*(each for each in GOOD if each[1] != without), *more], broken_at=[20.0])


def test_each_fault_is_found() -> None:
    assert changed(without="once").lost == 1
    assert changed(without="fails", more=((10.1, "fails"), (11.1, "fails"))).lost == 1
    assert changed(without="once", more=((9.9, "once"),)) == changed(without="once")._replace(early=1)
    assert changed(more=((10.5, "other"),)).unplanned == 1
    assert changed(more=((13.0, "once"),)).unexplained == 1
    assert (changed(more=((21.0, "once"),)).unexplained, changed(more=((21.0, "once"),)).repeated) == (0, 1)
    skipped = changed(without="often", more=((10.0, "often"), (10.2, "often"), (12.1, "often")))
    assert (skipped.lost, skipped.unexplained) == (1, 1)
