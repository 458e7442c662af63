"""Decision records: numbers without gaps, one form, an index made from titles, no reference to a missing one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.made_files import assert_written

ROOT = Path(__file__).parents[2]
ADRS = ROOT / "streamsched" / "adr"
INDEX = ADRS / "README.md"
RECORDS = sorted(ADRS.glob("[0-9]*.md"))
#: Without tables of numbers and other blocks that are quoted.
MOST_LINES = 125

INTRODUCTION = """\
# Decision records

One file for each decision that needs a defence: context, decision, what else was considered and is not done,
consequences. Docstrings, docs and the changelog cite a record by its number. `make docs` makes this list from the
titles.

| number | decision |
|---|---|
"""


def title(record: Path) -> tuple[int, str]:
    """Number and headline of a record, from its first line."""
    matched = re.fullmatch(r"# (\d{4}) · (\S.*)", record.read_text("utf-8").partition("\n")[0])
    assert matched, f"{record.name} begins with `# <number> · <headline>`"
    return int(matched[1]), matched[2]


def index() -> str:
    rows = [
        f"| [{number:04d}]({record.name}) | {headline} |\n"
        for record in RECORDS
        for number, headline in [title(record)]
    ]
    return INTRODUCTION + "".join(rows)


def cited(text: str) -> set[int]:
    """The numbers in `ADR 4`, `ADR 4, 7`, `ADR 4 to 7` and `[ADR 4](…)`, also where a comment breaks a line."""
    bare = re.findall(r"\bADRs?(?: |\n[ \t]*(?:#:?|--|\*)?[ \t]*)(\d+(?:(?:, | and | to |–)\d+)*)", text)
    linked = re.findall(r"\bADRs?\s+((?:\[\d+\]\([^)]*\)(?:,\s|\sand\s)?)+)", text)
    return {int(each) for many in bare for each in re.findall(r"\d+", many)} | {
        int(each) for many in linked for each in re.findall(r"\[(\d+)\]", many)
    }


def test_numbers_have_no_gaps_and_are_those_of_the_files() -> None:
    assert [title(record)[0] for record in RECORDS] == list(range(1, len(RECORDS) + 1))
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_the_index_is_made_from_the_titles() -> None:
    assert_written(INDEX, index())


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_has_one_form_and_is_short(record: Path) -> None:
    text = record.read_text("utf-8")
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)

    assert sections in (
        ["Context", "Decision", "Alternatives"],
        ["Context", "Decision", "Alternatives", "Consequences"],
    )
    assert len(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()) <= MOST_LINES


def test_every_record_that_is_cited_exists() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    numbers = range(1, len(RECORDS) + 1)
    missing: list[str] = []
    for name in tracked.split("\0"):
        path = ROOT / name
        if path.suffix not in {".py", ".md", ".sql", ".yaml", ".yml", ".toml", ".html"} or not path.is_file():
            continue
        text = path.read_text("utf-8")
        missing += [f"{name}: ADR {number}" for number in sorted(cited(text)) if number not in numbers]
        for file in re.findall(r"\badr/(\d{4}-[\w.-]+\.md)", text):
            if not (ADRS / file).exists() and path != Path(__file__):
                missing.append(f"{name}: {file}")

    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("see ADR 4.", {4}),
        ("(ADR 0004, 12)", {4, 12}),
        ("ADR 4 to 6, and 100 others", {4, 6}),
        ("[ADR 4](../adr/0004-it.md), 7 lines", {4}),
        ("-- Why: ADR\n-- 12.", {12}),
        ("ADRs            136      37", set()),
        ("ADR [4](0004-it.md), [5](0005-it.md)", {4, 5}),
    ],
)
def test_citations_are_found(text: str, numbers: set[int]) -> None:
    assert cited(text) == numbers
