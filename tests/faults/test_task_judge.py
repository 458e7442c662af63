"""The judge of deliveries finds each kind of deviation, and nothing where all is well."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.tasks import Name, Registration, Watched, judge_tasks
from tests.faults.tasks.receiver import Delivery
from tests.support.judgement import Judgement


def made(key: str, due: float, *, version: int = 1, verdict: str = "made", answered: float = 0.0) -> Registration:
    return Registration(Name("lane", key), version, due, verdict, answered)


def came(key: str, at: float, *, due: float = 1.0, took: float = 0.1, well: bool = True, **more: Any) -> Delivery:
    given = {"version": 1, "token": key, "attempt": 1} | more
    return Delivery("lane", key, due=due, arrived=at, ended=at + took, acknowledged=well, **given)


def found(
    *args: Any,
    dropped: dict[Name, float] | None = None,
    starts: dict[Name, float] | None = None,
    takeovers: dict[str, list[float]] | None = None,
) -> Judgement:
    registered = [each for each in args if isinstance(each, Registration)]
    deliveries = [each for each in args if isinstance(each, Delivery)]
    return judge_tasks(registered, dropped or {}, deliveries, Watched(starts or {}, takeovers or {}))


A, B = made("a", 1.0), made("b", 1.0)


def test_two_in_order_are_well() -> None:
    assert found(A, B, came("a", 2), came("b", 3)).clean


def test_what_never_arrives_or_is_never_acknowledged_is_lost() -> None:
    assert found(A, B, came("a", 2), came("b", 3, well=False)).lost == 1
    assert found(A, B, came("a", 2)).lost == 1


def test_what_was_dropped_is_not_lost() -> None:
    assert found(A, B, came("a", 2), dropped={Name("lane", "b"): 1.0}).clean


def test_before_its_due_time_is_early() -> None:
    assert found(A, came("a", 0.9))["early"] == 1


def test_the_later_one_first_is_unordered() -> None:
    assert found(A, B, came("b", 2), came("a", 3))["unordered"] == 1


def test_one_that_had_been_dropped_may_come_after_a_later_one() -> None:
    assert found(A, B, came("b", 2), came("a", 3), dropped={A.name: 1.9}).clean
    assert found(A, B, came("b", 2), came("a", 3), dropped={A.name: 2.5})["unordered"] == 1


def test_one_that_was_registered_when_the_other_was_due_may_come_later() -> None:
    assert found(made("a", 1.0, answered=2.0), B, came("b", 2.1), came("a", 3)).clean


def test_the_next_before_the_former_is_acknowledged_is_unordered() -> None:
    verdict = found(A, B, came("a", 2, well=False), came("b", 3), came("a", 4, attempt=2))
    assert verdict["unordered"] == 1


def test_two_on_their_way_are_together() -> None:
    assert found(A, B, came("a", 2, took=2.0), came("b", 3))["together"] == 1


def test_a_registration_that_was_replaced_before_its_start_is_stale() -> None:
    newer = made("a", 1.5, version=2, verdict="replaced")
    assert found(A, newer, came("a", 2, version=2, due=1.5)).clean
    assert found(A, newer, came("a", 2), came("a", 3, version=2, due=1.5, token="2"))["stale"] == 1


def test_a_version_that_was_never_stored_is_stale() -> None:
    assert found(A, made("a", 1.0, version=2, verdict="started"), came("a", 2), came("a", 3, version=2))["stale"] == 1


def test_what_was_not_stored_needs_a_start_or_a_drop_before_it() -> None:
    both = (A, made("a", 1.0, version=2, verdict="kept", answered=2.0), came("a", 3))
    assert found(*both).lost == 1
    assert found(*both, starts={A.name: 2.5}).lost == 1
    assert found(*both, starts={A.name: 1.5}).clean
    assert found(*both, dropped={A.name: 1.5}).clean


def test_what_a_later_version_replaced_in_one_transaction_is_not_lost() -> None:
    assert found(made("a", 1.0, version=2), made("a", 1.0, verdict="kept"), came("a", 2, version=2)).clean


def test_each_repeat_needs_a_takeover_of_its_own_before_it() -> None:
    both = (A, came("a", 2, well=False), came("a", 4))
    assert found(*both)["unexplained"] == 1
    assert found(*both, takeovers={"another": [3.0]})["unexplained"] == 1
    assert found(*both, takeovers={"a": [5.0]})["unexplained"] == 1
    explained = found(*both, takeovers={"a": [3.0]})
    assert (explained.clean, explained["repeated"]) == (True, 1)
    assert found(*both, came("a", 5), takeovers={"a": [3.0]})["unexplained"] == 1
