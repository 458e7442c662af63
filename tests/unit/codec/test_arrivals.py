"""What nodes wait for beside parents, as it is defined: names, job ids, and refusals with their path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import App, cron, event, partitions, program
from streamsched.codec.schedules.schedule import app_from_json, app_to_json
from streamsched.domain.errors import DecodeError, InvalidDefinitionError, InvalidError
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.job_template import ComponentKind, JobTemplate
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.triggers.correlation import Per

DAYS = {"date": "date"}


def shop(depends_on: Any, job_id: str = "{date}_{client}", **more: Any) -> App:
    app = App("shop")
    app.bash("say", "true")
    app.task("clean", "say", job_id=job_id, components=DAYS)
    app.task("report", "say", job_id=job_id, components=DAYS, depends_on=depends_on, **more)
    return app


def arriving(depends_on: Any, **more: Any) -> list[str]:
    return [task.name for task in shop(depends_on, **more).definition().tasks if task.arrives]


@pytest.mark.parametrize(
    ("depends_on", "names"),
    [
        (["clean", partitions("sales")], ["partitions-sales-date-client"]),
        ({"partitions": "sales"}, ["partitions-sales-date-client"]),
        ([event("landed"), partitions("sales")], ["event-landed-date-client", "partitions-sales-date-client"]),
        ({"l": {"event": "landed"}, "r": [{"event": {"event": "landed"}}]}, ["event-landed-date-client"]),
        (["clean", program("say").per("client", "date")], ["arrival-date-client-6f4ee0ab"]),
    ],
    ids=["python", "a field", "two", "once", "any trigger"],
)
def test_equal_conditions_are_one_task_whose_name_is_theirs(depends_on: Any, names: list[str]) -> None:
    found = arriving(depends_on)
    assert [each.rpartition("-")[0] if each.startswith("arrival") else each for each in found] == [
        each.rpartition("-")[0] if each.startswith("arrival") else each for each in names
    ]


def test_what_is_sent_to_the_server_is_the_same_app() -> None:
    app = shop(
        {"a": {"task": ["clean"], "partitions": "sales"}, "b": {"cron": {"cronExpression": "0 6 * * *", "back": "1d"}}},
        autofill_values={"client": ["a"]},
    ).definition()
    again = app_from_json(app_to_json(app))
    assert again == app
    (ticking,) = (each for each in again.schedules if each.ref.name.startswith("cron"))
    assert ticking.misfire is Misfire.ALL
    assert not isinstance(ticking.trigger, Per)
    assert {"partitions-sales-date-client", ticking.ref.name} <= again.enabled


def test_an_arrival_has_the_children_that_its_components_give() -> None:
    listed = {"partitions": {"dataset": "sales", "by": ["date", "region"]}, "region": ["EU", "US"]}
    graph = Graph(shop(listed, autofill_values={"client": ["a", "b"]}).definition().tasks)
    name = "partitions-sales-date-region"
    children = [str(child) for child, _ in graph.children(NodeId(name, "20140101_EU"))]
    assert children == ["report 20140101_a", "report 20140101_b"]
    (group,) = graph.parents(NodeId("report", "20140101_a"))
    assert [str(each) for each in group.parents] == [f"{name} 20140101_EU", f"{name} 20140101_US"]
    assert graph.task(name).awaited_text("20140101_EU") == "partition date=20140101, region=EU of sales"


@pytest.mark.parametrize(
    ("depends_on", "path", "why"),
    [
        ({"cron": "0 6 * *"}, ".cron.cronExpression", "has 4 fields"),
        ({"cron": {"cronExpression": "0 6 * * *", "format": {"date": "%c"}}}, ".cron.format.date", "may have"),
        ({"cron": {"cronExpression": "0 6 * * *", "format": {"client": "%H", "x": "%d"}}}, "", "which 'x'"),
        ({"cron": {"cronExpression": "0 6 * * *", "back": "x"}}, ".cron.back", ""),
        ({"partitions": {"dataset": "sales", "back": "1d"}}, ".partitions.back", "is of a time"),
        ({"partitions": {"dataset": "sales", "by": ["date"]}}, "", "for which 'client'"),
        ({"partitions": {"dataset": "sales", "by": ["da te"]}}, ".partitions.by", "must be components"),
        ({"partitions": {"dataset": "a b"}}, ".partitions.dataset", ""),
        ({"partitions": {"set": "sales"}}, ".partitions", ""),
        ({"g": [{"event": {"event": "x", "odd": 1}}]}, ".g[0].event.odd", "unknown field"),
        ([cron("0 6 * * *") | event("x")], ".task[0]", "has no key"),
        ([event("x").per("date") & event("y").per("client")], ".task[0].by", "one list of columns"),
    ],
)
def test_what_cannot_arrive_is_refused_with_its_path(depends_on: Any, path: str, why: str) -> None:
    with pytest.raises((InvalidDefinitionError, DecodeError)) as refused:
        shop(depends_on).definition()
    assert refused.value.path.startswith(f"$.tasks.report.depends_on{path}"), refused.value
    assert why in refused.value.reason


def test_a_cron_needs_one_component_that_is_a_day() -> None:
    app = App("shop")
    app.bash("say", "true")
    with pytest.raises(InvalidDefinitionError, match="name the component that is the time"):
        app.task("report", "say", job_id="{date}", depends_on=[cron("0 6 * * *")])


def test_a_list_of_values_of_a_component_named_event_is_no_condition() -> None:
    app = App("shop")
    app.bash("say", "true")
    app.task("seen", "say", job_id="{event}")
    app.task("all", "say", job_id="{day}", depends_on={"task": ["seen"], "event": ["a"]}, autofill_values={"day": [1]})
    assert not [task for task in app.definition().tasks if task.arrives]


@pytest.mark.parametrize("field", ["program", "schedule"])
def test_a_task_that_arrives_has_its_own_schedule_and_program(field: str) -> None:
    sent = app_to_json(shop(["clean", event("x")]).definition())
    name = "event-x-date-client"
    if field == "program":
        sent["programs"] = [{**each, "node": "{date}"} if each["name"] == name else each for each in sent["programs"]]
    else:
        sent["schedules"] = [each for each in sent["schedules"] if each["name"] != name]
    with pytest.raises((InvalidDefinitionError, DecodeError)):
        app_from_json(sent)


_TEMPLATE = JobTemplate.parse("{a}_{b}")
_values = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["a_b", "a/b", "", "\n", "x" * 300])


@given(_values, _values)
def test_values_of_an_event_are_the_parts_of_one_job_id_or_refused(a: str, b: str) -> None:
    try:
        found = ArrivalJob(_TEMPLATE).job_id({"key.a": a, "key.b": b}, datetime(2026, 1, 1, tzinfo=UTC))
    except InvalidError:
        assert not a or not b or "_" in a or not (a + b).isprintable() or len(a) + len(b) > 199
    else:
        assert _TEMPLATE.parts(found) == (a, b)


@pytest.mark.parametrize(
    ("tick", "back", "found"),
    [
        (datetime(2014, 3, 30, 0, 30, tzinfo=UTC), timedelta(0), "20140330_01"),
        (datetime(2014, 3, 30, 1, 30, tzinfo=UTC), timedelta(hours=1), "20140330_02"),
        (datetime(2014, 3, 31, 4, tzinfo=UTC), timedelta(days=1), "20140330_06"),
        (datetime(2013, 12, 31, 23, tzinfo=UTC), timedelta(0), "20140101_00"),
    ],
    ids=["before the clock changes", "the hour that there is not", "a day of 23 hours", "the zone's year"],
)
def test_a_time_is_that_of_the_wall_clock(tick: datetime, back: timedelta, found: str) -> None:
    template = JobTemplate.parse("{date}_{hour}", kinds={"date": ComponentKind.DATE})
    job = ArrivalJob(template, {"date": "%Y%m%d", "hour": "%H"}, "Europe/Berlin", back)
    assert job.job_id({}, tick) == found
