"""Filters on keys and attributes, totals, and k of n: what they count, what the job is given, how they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched import App, at_least, event, glob, partitions, program, total
from streamsched.codec.triggers.trigger import from_json, to_json
from streamsched.define.combinators import TriggerExpression
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
)
from streamsched.domain.events.match import Glob, Match, OneOf
from streamsched.domain.fold.explain import explain
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.triggers.trigger import (
    AtLeast,
    CustomEvent,
    Measure,
    Partitions,
    ProgramStatus,
    Silence,
    Total,
    Trigger,
    compatible_id,
    leaf_id,
)

AT = datetime(2013, 1, 7, 12, tzinfo=UTC)
FLIGHTS = DatasetRef("default", "flights")
PUSHED = EventName("default", "pushed")
JOIN = ProgramRef("default", "app", "join")
EAST = Match.from_values({"region": OneOf(frozenset({"EU", "AP"}))})


def after(trigger: Trigger, *facts: Fact) -> tuple[TriggerState, list[ReadyJob]]:
    state = fold(None, Put(ScheduleRef("default", "app", "s"), 1, True, trigger), at=AT).state
    jobs: list[ReadyJob] = []
    for place, fact in enumerate(facts):
        folded = fold(state, Occurred(Event(f"e{place}", "test", AT, fact)), at=AT)
        state = folded.state
        jobs += folded.jobs
    assert state is not None
    return state, jobs


def part(region: str, *, size: int | None = None, rows: int | None = None) -> Partition:
    return Partition(f"region={region}", {"region": region}, size, rows)


def landed(*parts: Partition, count: int | None = None) -> PartitionsAdded:
    return PartitionsAdded(FLIGHTS, parts, len(parts) if count is None else count)


def test_a_filtered_leaf_counts_the_partitions_it_asked_for_and_tells_of_these_alone() -> None:
    state, jobs = after(Partitions(FLIGHTS, 2, EAST), landed(part("EU"), part("US")), landed(part("US")))
    assert explain(state).have == 1
    assert jobs == []

    _, (job,) = after(Partitions(FLIGHTS, 2, EAST), landed(part("EU"), part("US")), landed(part("AP"), part("US")))
    (reported,) = job.contributions
    assert (reported.leaf, reported.count) == ("partitions:default.flights:2:distinct?region=AP|EU", 2)
    assert [each.fact for each in reported.events] == [landed(part("EU")), landed(part("AP"))]


def test_partitions_that_are_not_named_match_nothing_but_count_without_a_filter() -> None:
    assert (
        after(Partitions(FLIGHTS, 9, EAST), landed(part("EU"), count=4))[0]
        .accumulations[leaf_id(Partitions(FLIGHTS, 9, EAST))]
        .count
        == 1
    )
    assert explain(after(Partitions(FLIGHTS, 9), landed(part("EU"), count=4))[0]).have == 4


def test_bytes_and_rows_add_up_and_an_unknown_size_adds_nothing() -> None:
    commit = landed(part("EU", size=60, rows=3), part("US", size=50), part("AP"))

    assert explain(after(Total(FLIGHTS, Measure.BYTES, 500), commit)[0]).have == 110
    assert explain(after(Total(FLIGHTS, Measure.ROWS, 500), commit)[0]).have == 3
    assert explain(after(Total(FLIGHTS, Measure.BYTES, 500, EAST), commit)[0]).have == 60
    assert after(Total(FLIGHTS, Measure.BYTES, 500), landed(count=7))[0].accumulations == {}
    _, (job,) = after(Total(FLIGHTS, Measure.BYTES, 100), commit)
    assert job.contributions[0].count == 110


def test_an_event_counts_when_its_attributes_match() -> None:
    to_main = CustomEvent(PUSHED, 2, Match.from_values({"ref": Glob("refs/heads/*"), "by": OneOf(frozenset({"Zoë"}))}))
    yes, no = {"ref": "refs/heads/x", "by": "Zoë"}, {"ref": "refs/tags/x", "by": "Zoë"}

    state, jobs = after(to_main, *(CustomHappened(PUSHED, attributes) for attributes in (yes, no, {})))
    assert (explain(state).have, jobs) == (1, [])
    assert len(after(to_main, CustomHappened(PUSHED, yes), CustomHappened(PUSHED, yes))[1]) == 1


def ended(**arguments: str) -> ProgramReached:
    return ProgramReached(JOIN, "r", Outcome.SUCCEEDED, arguments)


def test_a_run_counts_when_its_arguments_match() -> None:
    eastern = ProgramStatus(JOIN, times=2, match=EAST)
    assert str(eastern) == "default.app.join succeeded where region AP or EU 2 times"

    state, jobs = after(eastern, ended(region="EU"), ended(region="US"), ended(), ended(area="EU"))
    assert (explain(state).have, jobs) == (1, [])
    _, (job,) = after(eastern, ended(region="EU"), ended(region="US", day="EU"), ended(region="AP", day="7"))
    assert [each.fact for each in job.contributions[0].events] == [ended(region="EU"), ended(region="AP", day="7")]


def test_runs_with_other_arguments_do_not_break_a_silence() -> None:
    put = Put(ScheduleRef("default", "app", "s"), 1, True, Silence(ProgramStatus(JOIN, match=EAST), timedelta(hours=1)))
    late = AT + timedelta(minutes=10)
    begun = fold(None, put, at=AT).state

    def last_heard(region: str) -> datetime | None:
        state = fold(begun, Occurred(Event("e", "test", late, ended(region=region))), at=late).state
        assert state is not None
        return state.cell.clocks[0].last

    assert (last_heard("US"), last_heard("EU")) == (AT, late)


def test_a_filter_is_part_of_what_a_program_leaf_is() -> None:
    other = Match.from_values({"region": Glob("EU")})
    some = [ProgramStatus(JOIN), ProgramStatus(JOIN, match=EAST), ProgramStatus(JOIN, match=other)]
    assert len({leaf_id(each) for each in some}) == len({compatible_id(each) for each in some}) == 3
    assert leaf_id(some[0]) == "program:default.app.join:succeeded:1", "as earlier releases stored it"
    assert compatible_id(some[1]) == compatible_id(ProgramStatus(JOIN, times=4, match=EAST))


def test_two_of_three_fire_once_two_hold_and_tell_of_the_third() -> None:
    trigger = AtLeast(2, (Partitions(FLIGHTS, 3), CustomEvent(PUSHED), Total(FLIGHTS, Measure.ROWS, 9)))

    state, jobs = after(trigger, landed(part("EU", rows=4)), CustomHappened(PUSHED))
    assert jobs == []
    tree = explain(state)
    assert (tree.have, tree.need, tree.missing) == (1, 2, 1)
    assert tree.text == (
        "at least 2 of (3 new partitions of default.flights, event default.pushed, 9 new rows in default.flights)"
    )

    _, (job,) = after(trigger, landed(part("EU", rows=4)), CustomHappened(PUSHED), landed(part("US"), part("AP")))
    assert {each.leaf: each.count for each in job.contributions} == {
        "partitions:default.flights:3:distinct": 3,
        "event:default.pushed:1": 1,
        "total:default.flights:rows:9:distinct": 4,
    }


def test_a_trigger_named_twice_counts_twice() -> None:
    assert len(after(AtLeast(2, (CustomEvent(PUSHED), CustomEvent(PUSHED))), CustomHappened(PUSHED))[1]) == 1


def test_filters_that_differ_are_different_leaves_and_stars_in_values_are_stars() -> None:
    star = {"day": OneOf(frozenset({"*"}))}, {"day": Glob("*")}, {"day": OneOf(frozenset({"a|b"}))}
    both = {"day": OneOf(frozenset({"a", "b"}))}
    assert len({leaf_id(Partitions(FLIGHTS, 1, Match.from_values(each))) for each in (*star, both, {})}) == 5
    assert not Match.from_values(star[0]).accepts({"day": "7"})
    assert Match.from_values(star[1]).accepts({"day": "7"})


ENDED = {"type": "PROGRAM_STATUS", "programId": "default.app.join", "programStatuses": ["COMPLETED"]}


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"type": "EVENT", "event": "a", "match": {"day": 7}}, "$.match.day"),
        ({"type": "EVENT", "event": "a", "match": {"day": []}}, "$.match.day"),
        ({"type": "EVENT", "event": "a", "match": {"day": ["7", 8]}}, "$.match.day[1]"),
        ({"type": "EVENT", "event": "a", "match": {"day": {"glob": ""}}}, "$.match.day.glob"),
        ({"type": "EVENT", "event": "a", "match": {"day": {"like": "7"}}}, "$.match.day.glob"),
        ({**ENDED, "match": {"region": 7}}, "$.match.region"),
        ({**ENDED, "match": "EU"}, "$.match"),
        ({**ENDED, "where": {"region": "EU"}}, "$.where"),
        ({"type": "TOTAL", "dataset": "a", "measure": "files", "amount": 1}, "$.measure"),
        ({"type": "TOTAL", "dataset": "a", "measure": "rows", "amount": 0}, "$.amount"),
        ({"type": "AT_LEAST", "count": 2, "triggers": [{"type": "EVENT", "event": "a"}]}, "$.count"),
        ({"type": "AT_LEAST", "count": 0, "triggers": [{"type": "EVENT", "event": "a"}]}, "$.count"),
        ({"type": "AT_LEAST", "count": 1, "triggers": [{"type": "EVENT"}]}, "$.triggers[0].event"),
    ],
)
def test_what_could_never_hold_is_refused_with_its_path(written: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        from_json(written)

    assert refused.value.path == path


def test_matches_are_written_as_text_list_or_glob() -> None:
    wanted = {"a": "1", "b": ["1", "2"], "c": {"glob": "1*"}}
    for written in {"type": "EVENT", "event": "pushed", "match": wanted}, {**ENDED, "match": wanted}:
        assert to_json(from_json(written))["match"] == wanted
    assert "match" not in to_json(from_json(ENDED))


def built(when: TriggerExpression) -> Trigger:
    app = App("app")
    app.schedule("s", app.bash("p", "true"), when=when)
    return app.definition().schedules[0].trigger


def test_the_builder_takes_values_sets_and_globs() -> None:
    assert built(partitions("flights", 2, match={"region": {"EU", "AP"}})) == Partitions(FLIGHTS, 2, EAST)
    assert built(event("pushed", match={"month": 1, "day": glob("0*")})) == CustomEvent(
        PUSHED, 1, Match.from_values({"month": OneOf(frozenset({"1"})), "day": Glob("0*")})
    )
    assert built(program("p", match={"region": {"EU", "AP"}})) == ProgramStatus(
        ProgramRef("default", "app", "p"), match=EAST
    )
    assert built(at_least(1, total("flights", "bytes", "64MB"), total("flights", "rows", 5))) == AtLeast(
        1, (Total(FLIGHTS, Measure.BYTES, 64_000_000), Total(FLIGHTS, Measure.ROWS, 5))
    )


@pytest.mark.parametrize(
    ("when", "path"),
    [
        (partitions("flights", match={"day": True}), "$.schedules.s.when.match.day"),
        (partitions("flights", match={"day": []}), "$.schedules.s.when.match.day"),
        (total("flights", "files", 3), "$.schedules.s.when.measure"),
        (total("flights", "rows", "64MB"), "$.schedules.s.when.amount"),
        (at_least(3, event("a"), event("b")), "$.schedules.s.when.count"),
    ],
)
def test_the_builder_tells_mistakes_where_they_are_made(when: TriggerExpression, path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        built(when)

    assert refused.value.path == path
