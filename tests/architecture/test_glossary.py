"""`docs/glossary.md`: each term once, in order, with one sentence; the classes it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs" / "glossary.md").read_text().splitlines()
ENTRIES = [line for line in LINES if line.startswith("- ")]
ENTRY = re.compile(r"- \*\*(?P<term>[^*]+)\*\*: (?P<sentence>.+)")


def _sources() -> str:
    return "\n".join(path.read_text() for room in ("streamsched", "brokers") for path in (ROOT / room).rglob("*.py"))


def test_each_entry_is_a_bold_term_with_one_sentence() -> None:
    for line in ENTRIES:
        matched = ENTRY.fullmatch(line)
        assert matched, line
        sentence = matched["sentence"]
        assert sentence.endswith("."), line
        assert not re.search(r"[.!?] ", sentence), line


def test_terms_are_sorted_and_each_is_there_once() -> None:
    terms = [matched["term"].casefold() for line in ENTRIES if (matched := ENTRY.fullmatch(line))]
    assert terms == sorted(set(terms))


def test_nothing_but_entries_follows_the_introduction() -> None:
    assert [line for line in LINES[4:] if line and line not in ENTRIES] == []


def test_the_classes_it_names_exist() -> None:
    text = _sources()
    for name in re.findall(r"\(`(\w+)`\)", "\n".join(ENTRIES)):
        assert re.search(rf"^class {name}\b", text, re.MULTILINE), name
