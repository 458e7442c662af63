"""Requirements of the published designs: each has what shows it, or says why not. The pages' checks are of the page."""

from __future__ import annotations

import pytest

from tests.architecture.reference.designs import Design, Status, designs, is_requirement

DESIGNS = designs()


@pytest.mark.parametrize("design", DESIGNS, ids=lambda each: each.title)
def test_what_works_is_shown_and_what_differs_or_is_not_done_says_why(design: Design) -> None:
    for row in design.rows():
        assert row.shown_by if row.status is Status.WORKS else row.note, row.says
        assert is_requirement(row) or row.status is Status.NOT_DONE, row.says


@pytest.mark.parametrize("design", DESIGNS, ids=lambda each: each.title)
def test_a_row_is_short_and_there_once(design: Design) -> None:
    for title, rows in design.sections.items():
        says = [row.says for row in rows]
        assert len(set(says)) == len(says), title
        assert max(map(len, says)) <= 160, title


@pytest.mark.parametrize("design", DESIGNS, ids=lambda each: each.title)
def test_only_tests_and_commands_show_it(design: Design) -> None:
    for row in design.rows():
        for each in row.shown_by:
            assert each.startswith(("make ", "streamsched ")) or (each.startswith("tests/") and "::" in each), each
