"""Named groups: which job fits, and the reason when none does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched import App, cron, group
from streamsched.domain.constraints.group import Group, GroupSlot, Occupancy, groups_of_manual_run
from streamsched.domain.constraints.pool import Pool, PoolQueue, QueuePosition
from streamsched.domain.decisions.admission import (
    ConstraintInput,
    ConstraintVerdict,
    Satisfied,
    Unsatisfiable,
    WaitFor,
    check,
    check_all,
)
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TWO = (GroupSlot("a", 1), GroupSlot("b", 2))


@pytest.mark.parametrize(
    ("constraint", "current", "verdict"),
    [
        (Group("w", 1), None, Satisfied("0 of 1 slots of group w are taken")),
        (Group("w", 4), Occupancy(None, TWO), Satisfied("3 of 4 slots of group w are taken")),
        (
            Group("w", 4, 2),
            Occupancy(None, TWO),
            WaitFor(("group w", "a", "b"), "3 of 4 slots of group w are taken, 2 are wanted: a, b"),
        ),
        (Group("w", 4, wait=False), Occupancy(3, TWO), Unsatisfiable("3 of 3 slots of group w are taken: a, b")),
        (Group("w", 3), Occupancy(5, TWO), Satisfied("3 of 5 slots of group w are taken")),
        (Group("w", 3), Occupancy(0), WaitFor(("group w",), "0 of 0 slots of group w are taken")),
    ],
)
def test_a_group_has_room_or_says_who_is_in_it(
    constraint: Group, current: Occupancy | None, verdict: ConstraintVerdict
) -> None:
    groups = {} if current is None else {"w": current}

    assert check(constraint, ConstraintInput(NOW, resources=Resources(groups)), NOW) == verdict


def test_a_run_that_could_never_fit_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidDefinitionError, match=r"\$\.weight: must be 1 to 2, the limit, but is 3"):
        group("w", 2, weight=3)


def test_a_schedule_asks_for_a_group_once() -> None:
    app = App("flights")
    load = app.bash("load", "true")
    with pytest.raises(InvalidDefinitionError, match=r"\$\.schedules\.s\.constraints: name group 'w' twice"):
        app.schedule("s", load, when=cron("0 6 * * *"), constraints=[group("w", 1), group("w", 2)])


def test_a_run_by_hand_takes_of_each_group_what_the_heaviest_schedule_takes() -> None:
    light, heavy, tight = Group("a", 9), Group("a", 9, weight=4), Group("a", 5, weight=4)

    assert groups_of_manual_run([light, heavy, Group("b", 1), tight]) == (tight, Group("b", 1))


def test_reasons_name_runs_of_their_own_namespace_and_count_the_others() -> None:
    slots = tuple(GroupSlot(run, 1) for run in ("sales.a.s.1.1.r1", "finance.a.s.1.1.r1", "finance.a.s.1.2.r1"))
    program = ProgramRef("sales", "a", "p")
    before = tuple(QueuePosition(NOW, n, f"finance.a.s.1.{n}") for n in (3, 4))
    resources = Resources(
        groups={"w": Occupancy(3, slots)}, pool_queues={"p": PoolQueue(Occupancy(1, slots[1:2]), before)}
    )
    facts = ConstraintInput(
        NOW, program=program, resources=resources, queue_position=QueuePosition(NOW, 5, "sales.a.s.1.5")
    )

    verdicts = check_all((Group("w", 3), Pool("p", 1, wait=False)), facts, NOW)

    assert [each.why for each in verdicts.verdicts] == [
        "3 of 3 slots of group w are taken: sales.a.s.1.1.r1 and 2 runs of other namespaces",
        "1 of 1 places of pool p are taken: 1 run of another namespace; "
        "2 jobs are ahead of this one: 2 jobs of other namespaces",
    ]
