"""The state machines: each transition tried, compared with the database's lists, and drawn.

`docs/reference/states.md` is made from the tables; `make docs` writes it again.
"""

from __future__ import annotations

import inspect
import re
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.backfills.backfill import BACKFILL_STATES, BackfillState, ItemState
from streamsched.domain.errors import IllegalTransitionError
from streamsched.domain.events.event import Outcome
from streamsched.domain.graph.node import NODE_STATES, NodeFact, NodeState
from streamsched.domain.jobs.job import JOB_STATES, JobState
from streamsched.domain.jobs.run import OUTCOMES, RUN_STATES, RunState
from streamsched.domain.state_machine import StateMachine
from streamsched.domain.tasks.task import TASK_STATES, TaskState
from tests.support.made_files import assert_written

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "reference" / "states.md"
MIGRATIONS = sorted((ROOT / "migrations" / "versions").glob("*.sql"))

Machine = StateMachine[Any, Any]
each_machine = pytest.mark.parametrize(
    "machine", [JOB_STATES, RUN_STATES, BACKFILL_STATES, TASK_STATES, NODE_STATES], ids=lambda machine: machine.noun
)


def states_of(machine: Machine) -> type[StrEnum]:
    """The first is where each thing begins."""
    return type(next(iter(machine.ends)))


def facts_of(machine: Machine) -> type[StrEnum]:
    return type(next(iter(machine.table))[1])


@each_machine
def test_every_state_is_reached_from_the_first_and_leads_to_an_end(machine: Machine) -> None:
    def closure(pairs: set[tuple[StrEnum, StrEnum]], seeds: set[StrEnum]) -> set[StrEnum]:
        reached = set(seeds)
        while more := {after for before, after in pairs if before in reached} - reached:
            reached |= more
        return reached

    steps = {(before, after) for (before, _), after in machine.table.items()}
    states = states_of(machine)
    assert closure(steps, {next(iter(states))}) == set(states)
    assert closure({(after, before) for before, after in steps}, set(machine.ends)) == set(states)


@each_machine
def test_only_a_node_that_is_to_run_again_leaves_an_end(machine: Machine) -> None:
    ways = {before: {fact for at, fact in machine.table if at is before} for before in states_of(machine)}
    again = {NodeFact.RESET, NodeFact.UNBLOCKED}
    assert machine.ends == {before for before, facts in ways.items() if facts <= again}
    assert machine is NODE_STATES or not any(ways[end] for end in machine.ends)


def test_a_state_knows_whether_it_is_an_end() -> None:
    for machine in JOB_STATES, RUN_STATES, BACKFILL_STATES, TASK_STATES:
        assert {state for state in type(next(iter(machine.ends))) if state.is_terminal} == machine.ends


@each_machine
def test_every_fact_can_be_reported_to_some_state(machine: Machine) -> None:
    assert {fact for _, fact in machine.table} == set(facts_of(machine))


@each_machine
def test_a_fact_leads_to_the_state_of_the_table_or_is_refused(machine: Machine) -> None:
    for state, fact in product(states_of(machine), facts_of(machine)):
        if (state, fact) in machine.table:
            assert machine.advance(state, fact) is machine.table[state, fact]
        else:
            with pytest.raises(IllegalTransitionError) as refused:
                machine.advance(state, fact)
            assert (refused.value.machine, refused.value.state, refused.value.fact) == (machine.noun, state, fact)


def test_every_end_of_a_run_is_reported_to_triggers_and_every_outcome_is_some_state() -> None:
    assert set(OUTCOMES) >= RUN_STATES.ends
    assert set(OUTCOMES.values()) == set(Outcome)


def _listed(table: str) -> set[str]:
    """The states that the database accepts in `<table>.state`: the last migration that says so."""
    pattern = re.compile(rf"CREATE TABLE {table} \(.*?state IN \((?P<states>.*?)\)", re.DOTALL)
    found = [matched["states"] for path in MIGRATIONS for matched in pattern.finditer(path.read_text())]
    assert found, f"no migration lists the states of {table}"
    return set(re.findall(r"'([A-Z_]+)'", found[-1]))


def test_the_database_accepts_exactly_the_states_of_a_job_that_become_rows() -> None:
    assert _listed("jobs") == set(JobState) - {JobState.PENDING_TRIGGER}


def test_the_database_accepts_exactly_the_states_of_a_run() -> None:
    assert _listed("runs") == set(RunState)


def test_the_database_accepts_exactly_the_states_of_a_backfill_and_its_items() -> None:
    assert _listed("backfills") == set(BackfillState)
    assert _listed("backfill_items") == set(ItemState)


def test_the_database_accepts_exactly_the_states_of_a_task() -> None:
    """In flight is stored in its lane; ends, also those of a tick, are in the history."""
    assert _listed("tasks") == set(TaskState) - TASK_STATES.ends - {TaskState.IN_FLIGHT}
    assert _listed("tasks_history") == TASK_STATES.ends


@pytest.mark.parametrize(
    ("table", "machine"),
    [("jobs", JOB_STATES), ("runs", RUN_STATES), ("backfills", BACKFILL_STATES)],
    ids=["jobs", "runs", "backfills"],
)
def test_the_database_knows_which_states_are_ends(table: str, machine: Machine) -> None:
    """`(ended_at IS NOT NULL) = (state …)`: either form, of ends or of the states before them."""
    body = next(
        matched[1]
        for path in MIGRATIONS
        if (matched := re.search(rf"CREATE TABLE {table} \((.*?)\n\);", path.read_text(), re.DOTALL))
    )
    rule = re.search(r"\(ended_at IS NOT NULL\) = \(state (NOT )?IN \((.*?)\)\)", body, re.DOTALL)
    assert rule, f"{table} does not say when a row has ended"
    named = set(re.findall(r"'([A-Z_]+)'", rule[2]))
    rows = _listed(table)
    assert (rows - named if rule[1] else named) == machine.ends


def _diagram(machine: Machine) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(states_of(machine)))}"]
    lines += [f"    {before} --> {after}: {fact}" for (before, fact), after in machine.table.items()]
    lines += [f"    {state} --> [*]" for state in states_of(machine) if state in machine.ends]
    return "\n".join([*lines, "```"])


def _meanings(states: type[StrEnum]) -> str:
    """A row for each state, with the comment before it in the source."""
    comments = re.findall(r"((?:    #: .*\n)+)    (\w+) = ", inspect.getsource(states))
    assert [name for _, name in comments] == [state.name for state in states]
    rows = (f"| `{name}` | {' '.join(line.strip()[3:] for line in text.splitlines())} |" for text, name in comments)
    return "\n".join(["| state | |", "|---|---|", *rows])


def _page() -> str:
    return "\n".join(
        [
            "# States",
            "",
            "Made from the tables in `streamsched/domain/`; `make docs` writes it again.",
            "",
            "## A job: one satisfaction of one schedule",
            "",
            _meanings(JobState),
            "",
            _diagram(JOB_STATES),
            "",
            "## A run: one execution of a program",
            "",
            "What triggers receive: "
            + ", ".join(f"`{state}` as *{outcome}*" for state, outcome in OUTCOMES.items())
            + ".",
            "",
            _meanings(RunState),
            "",
            _diagram(RUN_STATES),
            "",
            "## A backfill: many jobs of one schedule",
            "",
            "Each of its jobs is an item: `WAITING` until the job is made, `ACTIVE` until that has ended, then",
            "`SUCCEEDED`, `FAILED`, or `DROPPED` when it ended without a run.",
            "",
            _meanings(BackfillState),
            "",
            _diagram(BACKFILL_STATES),
            "",
            "## A task: an item with a due time in a lane of a queue",
            "",
            "A row in the database is `WAITING` or `RETRYING`; it is `IN_FLIGHT` while its lane names it. Ended "
            "tasks are in the history.",
            "",
            _meanings(TaskState),
            "",
            _diagram(TASK_STATES),
            "",
            "## A node: a task of a graph at one job id",
            "",
            _meanings(NodeState),
            "",
        ]
    )


def test_the_diagrams_show_the_tables() -> None:
    assert_written(DOCS, _page())
