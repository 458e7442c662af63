"""The judge of deliveries finds each kind of deviation, and nothing where all is well."""

from __future__ import annotations

from typing import Any

from tests.faults.tasks.judge import Name, Registration, TaskVerdict, judge
from tests.faults.tasks.receiver import Delivery


def made(key: str, due: float, *, version: int = 1, verdict: str = "made", answered: float = 0.0) -> Registration:
    return Registration(Name("lane", key), version, due, verdict, answered)


def came(key: str, at: float, *, due: float = 1.0, took: float = 0.1, well: bool = True, **more: Any) -> Delivery:
    given = {"version": 1, "token": key, "attempt": 1} | more
    return Delivery("lane", key, due=due, arrived=at, ended=at + took, acknowledged=well, **given)


def found(
    *args: Any, dropped: dict[Name, float] | None = None, in_flight: frozenset[Name] = frozenset()
) -> TaskVerdict:
    registered = [each for each in args if isinstance(each, Registration)]
    deliveries = [each for each in args if isinstance(each, Delivery)]
    return judge(registered, dropped or {}, deliveries, in_flight)


A, B = made("a", 1.0), made("b", 1.0)


def test_two_in_order_are_well() -> None:
    assert found(A, B, came("a", 2), came("b", 3)).well


def test_what_never_arrives_or_is_never_acknowledged_is_lost() -> None:
    assert found(A, B, came("a", 2), came("b", 3, well=False)).lost == 1
    assert found(A, B, came("a", 2)).lost == 1


def test_what_was_dropped_is_not_lost() -> None:
    assert found(A, B, came("a", 2), dropped={Name("lane", "b"): 1.0}).well


def test_before_its_due_time_is_early() -> None:
    assert found(A, came("a", 0.9)).early == 1


def test_the_later_one_first_is_unordered() -> None:
    assert found(A, B, came("b", 2), came("a", 3)).unordered == 1


def test_one_that_was_registered_when_the_other_was_due_may_come_later() -> None:
    assert found(made("a", 1.0, answered=2.0), B, came("b", 2.1), came("a", 3)).well


def test_the_next_before_the_former_is_acknowledged_is_unordered() -> None:
    verdict = found(A, B, came("a", 2, well=False), came("b", 3), came("a", 4, attempt=2))
    assert verdict.unordered == 1


def test_two_on_their_way_are_together() -> None:
    assert found(A, B, came("a", 2, took=2.0), came("b", 3)).together == 1


def test_a_registration_that_was_replaced_before_its_start_is_stale() -> None:
    newer = made("a", 1.5, version=2, verdict="replaced")
    assert found(A, newer, came("a", 2, version=2, due=1.5)).well
    assert found(A, newer, came("a", 2), came("a", 3, version=2, due=1.5, token="2")).stale == 1


def test_a_repeat_is_explained_by_a_fault() -> None:
    both = (A, came("a", 2, well=False), came("a", 3))
    assert found(*both).unexplained == 1
    explained = found(*both, in_flight=frozenset({Name("lane", "a")}))
    assert (explained.well, explained.repeated) == (True, 1)
