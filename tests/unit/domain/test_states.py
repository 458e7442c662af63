"""The state machines of jobs, runs, backfills and tasks: walked, compared with the database's lists, and drawn.

`docs/reference/states.md` is made from the tables; `make docs` writes it again.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.backfills import backfill
from streamsched.domain.errors import IllegalTransitionError
from streamsched.domain.events.event import Outcome
from streamsched.domain.graph.node import NodeState
from streamsched.domain.jobs import job, run
from streamsched.domain.tasks import task

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "reference" / "states.md"
MIGRATIONS = sorted((ROOT / "migrations" / "versions").glob("*.sql"))

Table = Mapping[tuple[Any, Any], Any]
Advance = Callable[[Any, Any], StrEnum]


class Machine:
    """One of the machines, so that every test is given each."""

    def __init__(self, noun: str, states: type[StrEnum], facts: type[StrEnum], *, module: Any) -> None:
        self.noun, self.states, self.facts = noun, states, facts
        self.table: Table = module.TRANSITIONS
        self.terminal: frozenset[StrEnum] = module.TERMINAL
        self.advance: Advance = module.advance
        self.first: StrEnum = next(iter(states))

    def __repr__(self) -> str:
        return self.noun


JOB = Machine("job", job.JobState, job.JobFact, module=job)
RUN = Machine("run", run.RunState, run.RunFact, module=run)
BACKFILL = Machine("backfill", backfill.BackfillState, backfill.BackfillFact, module=backfill)
TASK = Machine("task", task.TaskState, task.TaskFact, module=task)
each_machine = pytest.mark.parametrize("machine", [JOB, RUN, BACKFILL, TASK], ids=repr)


@each_machine
def test_every_state_is_reached_from_the_first_and_leads_to_an_end(machine: Machine) -> None:
    def closure(pairs: set[tuple[StrEnum, StrEnum]], seeds: set[StrEnum]) -> set[StrEnum]:
        reached = set(seeds)
        while more := {after for before, after in pairs if before in reached} - reached:
            reached |= more
        return reached

    steps = {(before, after) for (before, _), after in machine.table.items()}
    assert closure(steps, {machine.first}) == set(machine.states)
    assert closure({(after, before) for before, after in steps}, set(machine.terminal)) == set(machine.states)


@each_machine
def test_the_ends_are_exactly_the_states_without_a_way_on(machine: Machine) -> None:
    left = {before for before, _ in machine.table}
    assert machine.terminal == set(machine.states) - left
    assert {state for state in machine.states if getattr(state, "terminal", False)} == machine.terminal


@each_machine
def test_every_fact_can_be_reported_to_some_state(machine: Machine) -> None:
    assert {fact for _, fact in machine.table} == set(machine.facts)


@each_machine
@given(data=st.data())
def test_a_walk_never_leaves_the_table_and_a_refused_fact_changes_nothing(
    machine: Machine, data: st.DataObject
) -> None:
    state = machine.first
    ended = False
    for fact in data.draw(st.lists(st.sampled_from(list(machine.facts)), max_size=40)):
        if (state, fact) in machine.table:
            assert not ended, "an end has no way on"
            state = machine.advance(state, fact)
        else:
            with pytest.raises(IllegalTransitionError) as refused:
                machine.advance(state, fact)
            assert (refused.value.machine, refused.value.state, refused.value.fact) == (machine.noun, state, fact)
        ended = state in machine.terminal
        assert state in machine.states


def test_every_end_of_a_run_is_reported_to_triggers_and_every_outcome_is_some_state() -> None:
    assert set(run.OUTCOMES) >= run.TERMINAL
    assert set(run.OUTCOMES.values()) == set(Outcome)


def _listed(table: str) -> set[str]:
    """The states that the database accepts in `<table>.state`: the last migration that says so."""
    pattern = re.compile(rf"CREATE TABLE {table} \(.*?state IN \((?P<states>.*?)\)", re.DOTALL)
    found = [matched["states"] for path in MIGRATIONS for matched in pattern.finditer(path.read_text())]
    assert found, f"no migration lists the states of {table}"
    return set(re.findall(r"'([A-Z_]+)'", found[-1]))


def test_the_database_accepts_exactly_the_states_of_a_job_that_become_rows() -> None:
    assert _listed("jobs") == set(job.JobState) - {job.JobState.PENDING_TRIGGER}


def test_the_database_accepts_exactly_the_states_of_a_run() -> None:
    assert _listed("runs") == set(run.RunState)


def test_the_database_accepts_exactly_the_states_of_a_backfill_and_its_items() -> None:
    assert _listed("backfills") == set(backfill.BackfillState)
    assert _listed("backfill_items") == set(backfill.ItemState)


def test_the_database_accepts_exactly_the_states_of_a_task() -> None:
    """In flight is stored in its lane; ends, also those of a tick, are in the history."""
    assert _listed("tasks") == set(task.TaskState) - task.TERMINAL - {task.TaskState.IN_FLIGHT}
    assert _listed("tasks_history") == task.TERMINAL


@pytest.mark.parametrize(
    ("table", "machine"),
    [("jobs", JOB), ("runs", RUN), ("backfills", BACKFILL)],
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
    assert (rows - named if rule[1] else named) == machine.terminal


def _diagram(machine: Machine) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {machine.first}"]
    lines += [f"    {before} --> {after}: {fact}" for (before, fact), after in machine.table.items()]
    lines += [f"    {state} --> [*]" for state in machine.states if state in machine.terminal]
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
            _meanings(JOB.states),
            "",
            _diagram(JOB),
            "",
            "## A run: one execution of a program",
            "",
            "What triggers receive: "
            + ", ".join(f"`{state}` as *{outcome}*" for state, outcome in run.OUTCOMES.items())
            + ".",
            "",
            _meanings(RUN.states),
            "",
            _diagram(RUN),
            "",
            "## A backfill: many jobs of one schedule",
            "",
            "Each of its jobs is an item: `WAITING` until the job is made, `ACTIVE` until that has ended, then",
            "`SUCCEEDED`, `FAILED`, or `DROPPED` when it ended without a run.",
            "",
            _meanings(BACKFILL.states),
            "",
            _diagram(BACKFILL),
            "",
            "## A task: an item with a due time in a lane of a queue",
            "",
            "A row in the database is `WAITING` or `RETRYING`; it is `IN_FLIGHT` while its lane names it. Ended "
            "tasks are in the history.",
            "",
            _meanings(TASK.states),
            "",
            _diagram(TASK),
            "",
            "## A node: a task of a graph at one job id",
            "",
            _meanings(NodeState),
            "",
        ]
    )


def test_the_diagrams_show_the_tables() -> None:
    if os.environ.get("UPDATE_DOCS"):
        DOCS.parent.mkdir(parents=True, exist_ok=True)
        DOCS.write_text(_page())
    assert DOCS.read_text() == _page(), "docs/reference/states.md is stale: run `make docs`"
