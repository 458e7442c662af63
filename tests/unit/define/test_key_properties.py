"""Keys in definitions: no property hides their columns, these are bounded texts, and concurrency can be of a key."""

from __future__ import annotations

from typing import Any

import pytest

import streamsched
from streamsched import App, partitions, program
from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope
from streamsched.domain.errors import InvalidDefinitionError


@pytest.mark.parametrize(
    ("when", "name", "path"),
    [
        (partitions("a").per("date"), "date", "$.schedules[0].properties.date"),
        (partitions("a").per("region", "date"), "key.date", "$.schedules[0].properties['key.date']"),
        (partitions("a").per("hour").rolled_up_to("day"), "day", "$.schedules[0].properties.day"),
        (partitions("a").per("x") & program("p").per("my date"), "my date", "$.schedules[0].properties['my date']"),
    ],
)
def test_a_property_that_would_hide_a_column_of_the_key_is_refused(
    when: streamsched.TriggerExpression, name: str, path: str
) -> None:
    app = App("shop")
    app.schedule("daily", app.bash("p", "true"), when=when, properties={"other": "1", name: "2013-01-07"})

    with pytest.raises(InvalidDefinitionError, match=r"each run has from its key.*in schedule 'daily'") as refused:
        app.definition()

    assert refused.value.path == path


def test_defaults_and_columns_that_are_no_longer_the_keys_are_not_hidden() -> None:
    app = App("shop")
    program_ref = app.bash("p", "true", defaults={"date": "2013-01-07", "key.date": "x"})
    app.schedule("daily", program_ref, when=partitions("a").per("date"), properties={"region": "EU"})
    rolled = partitions("a").per("hour").rolled_up_to("day")
    app.schedule("hourly", program_ref, when=rolled, properties={"hour": "05", "date": "x"})
    app.schedule("plain", program_ref, when=partitions("a"), properties={"date": "x"})

    assert len(app.definition().schedules) == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (tuple(f"c{n}" for n in range(101)), r"^\$\.schedules\.s\.when\.by: must have at most 100 columns but has 101"),
        (("a", "b" * 256), r"^\$\.schedules\.s\.when\.by\[1\]: must have at most 255 characters but has 256"),
        ((5,), r"^\$\.schedules\.s\.when\.by\[0\]: must be a text but is 5"),
    ],
)
def test_the_columns_of_a_key_are_bounded_texts(columns: tuple[Any, ...], message: str) -> None:
    app = App("shop")
    with pytest.raises(InvalidDefinitionError, match=message):
        app.schedule("s", app.bash("p", "true"), when=partitions("a").per(*columns))


def test_concurrency_is_of_the_program_of_the_schedule_or_of_the_key() -> None:
    app = App("shop")
    load = app.bash("p", "true")
    for scope in ("program", "schedule", "key"):
        app.schedule(scope, load, when=partitions("a").per("date"), max_concurrent=1, of=scope)

    limits = [each.constraints for each in app.definition().schedules]

    assert limits == [(Concurrency(1, wait=True, of=scope),) for scope in ConcurrencyScope]
    assert [len(each.lanes) for each in app.definition().schedules] == [0, 1, 1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"of": "key"}, r"^\$\.schedules\.s\.of: says whose runs max_concurrent counts, which is not given"),
        ({"of": "day", "max_concurrent": 1}, r"^\$\.schedules\.s\.of: must be one of program, schedule, key"),
        ({"of": "key", "max_concurrent": 0}, r"^\$\.schedules\.s\.max_concurrent: must be at least 1"),
    ],
)
def test_a_wrong_scope_is_refused_with_its_path(fields: dict[str, Any], message: str) -> None:
    app = App("shop")
    with pytest.raises(InvalidDefinitionError, match=message):
        app.schedule("s", app.bash("p", "true"), when=partitions("a").per("date"), **fields)
