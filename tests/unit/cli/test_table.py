"""Tables at any width: identifiers are never cut, and no cell breaks the layout."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from streamsched.cli.table import Column, ColumnKind, layout, plain_text

COLUMNS = (
    Column("id", "schedule", ColumnKind.ID),
    Column("state"),
    Column("when", kind=ColumnKind.TEXT, optional=2),
    Column("next", "next tick", ColumnKind.TIME),
    Column("reason", kind=ColumnKind.REASON),
)

CJK = "\u65e5\u672c\u8a9e" * 40
RTL = "\u05e9\u05dc\u05d5\u05dd " * 20
ids = st.one_of(
    st.text(min_size=1, max_size=20),
    st.sampled_from(["a" * 200, "flights." + "x" * 192, CJK, RTL.strip(), "e\u0301" * 50, "\u202etxt.exe", "\ud800"]),
)
texts = st.one_of(st.just("-"), st.text(max_size=300), st.sampled_from([CJK, RTL, "x" * 100_000, "a b " * 500]))
rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": ids.map(plain_text),
            "state": st.sampled_from(["enabled", "paused"]),
            "when": texts.map(plain_text),
            "next": st.sampled_from(["-", "2026-03-01 06:00:00Z"]),
            "reason": texts.map(plain_text),
        }
    ),
    max_size=5,
)


def lines(rows: Sequence[dict[str, str]], width: int | None) -> list[str]:
    return ["".join(piece.text for piece in line) for line in layout(rows, COLUMNS, width)]


@given(rows, st.one_of(st.none(), st.integers(1, 250)))
def test_every_id_is_whole_in_lines_of_any_width(given: list[dict[str, str]], width: int | None) -> None:
    shown = lines(given, width)

    for row in given:
        for part in row["id"].split("\n"):
            assert any(part.rstrip() in line for line in shown), (part, shown)
    "\n".join(shown).encode()


@given(rows)
def test_a_line_is_wider_than_the_terminal_only_where_an_id_is(given: list[dict[str, str]]) -> None:
    widest = max((cell_len(line) for row in given for line in row["id"].split("\n")), default=0)

    assert all(cell_len(line) <= max(80, widest + 30) for line in lines(given, 80))


def test_omitted_columns_are_named_unless_they_are_empty() -> None:
    row = {
        "id": "flights.weekly",
        "state": "enabled",
        "when": "7 new partitions of flights",
        "next": "-",
        "reason": "-",
    }

    assert lines([row], 80) == [
        "schedule        state    when                         next tick  reason",
        "flights.weekly  enabled  7 new partitions of flights  -          -",
    ]
    assert lines([row], 45) == [
        "schedule        state    when",
        "flights.weekly  enabled  7 new partitions of",
        "                         flights",
    ]
    row["next"] = "2026-03-01 06:00:00Z"
    assert lines([row], 45)[-1] == "columns not shown: when; use `-o wide`"


def test_a_time_stands_on_two_lines_before_a_column_is_omitted() -> None:
    row = {"id": "a.b", "state": "enabled", "when": "7 new partitions", "next": "2026-03-01 06:00:00Z", "reason": "-"}

    assert lines([row], 50) == [
        "schedule  state    when              next tick",
        "a.b       enabled  7 new partitions  2026-03-01",
        "                                     06:00:00Z",
    ]


def test_rows_with_long_ids_become_blocks() -> None:
    row = {"id": "x" * 90, "state": "paused", "when": "a b", "next": "-", "reason": "-"}

    assert lines([row], 80) == [
        "x" * 90,
        "  state  paused",
        "  when   a b",
    ]


def test_control_characters_are_escaped_and_joiners_are_kept() -> None:
    assert plain_text("a\x1b[2Jb\r\u202ec\ud800") == "a\\x1b[2Jb\\x0d\\u202ec\\ud800"
    joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u65e5\u3000\u672c"
    assert plain_text(joined) == joined
