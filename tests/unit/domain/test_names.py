"""Text forms of names: one for each name, and read back as what was written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.run import run_id
from streamsched.domain.names import ProgramRef, ScheduleRef

_PRINTABLE = st.text(
    st.characters(exclude_categories=("C", "Zl", "Zp"), exclude_characters="/").filter(str.isprintable),
    min_size=1,
    max_size=20,
)


@given(_PRINTABLE)
@example("pipeline.ns.pipeline.ns")
@example("a~2Eb")
@example("~")
@example("..")
@example("naïve 日本 %2E?#&'\"")
def test_a_name_of_a_schedule_is_read_from_its_id(name: str) -> None:
    ref = ScheduleRef("default", "sales", name)

    assert ScheduleRef.parse(str(ref)) == ref
    assert str(ref).count(".") == 2
    assert str(ref).replace("~", "a").replace(".", "a").replace("-", "a").replace("_", "a").isascii()


@given(_PRINTABLE, _PRINTABLE)
def test_two_names_have_two_ids(one: str, other: str) -> None:
    ids = {str(ScheduleRef("default", "sales", name)) for name in (one, other)}

    assert len(ids) == len({one, other})


def test_an_id_of_a_run_belongs_to_one_schedule() -> None:
    first, second = ScheduleRef("default", "sales", "daily"), ScheduleRef("default", "sales", "daily.1")

    assert run_id(f"{second}.1.1", 1).startswith(f"{second}.")
    assert not f"{second}.1.1".startswith(f"{first}.")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "a\u2028b", "a" + "é" * 100, "\ud800"])
def test_names_that_no_schedule_has(name: str) -> None:
    with pytest.raises(InvalidError, match="schedule name"):
        ScheduleRef("default", "sales", name)


def test_what_needs_an_escape_is_read_without_too() -> None:
    assert str(ScheduleRef.parse("default.sales.daily join")) == "default.sales.daily~20join"


@pytest.mark.parametrize("text", ["a.b", "a.b.c.d", "a.b.~", "a.b.c~2e", "a.b.~41", "a.b.~FF", ".b.c"])
def test_texts_that_are_no_id_of_a_schedule(text: str) -> None:
    with pytest.raises(InvalidError):
        ScheduleRef.parse(text)


def test_names_of_programs_have_no_dots() -> None:
    with pytest.raises(InvalidError, match="must be one or more of"):
        ProgramRef("default", "sales", "a.b")
