"""Reference, explanation and decision records: links and named files exist, Python runs, events decode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamsched.codec.event import decode
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.schedules.pause import ACTIVITIES, DISABLED, Activity, PauseMode
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.ticks.fire_times import check_cron
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import Cron

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ADRS = ROOT / "streamsched" / "adr"
OURS = [
    *sorted((DOCS / "reference").glob("*.md")),
    *(DOCS / "explanation" / f"{name}.md" for name in ("exactness", "promises", "security", "time")),
]
PAGES = [
    *OURS,
    DOCS / "glossary.md",
    DOCS / "how-to" / "add-to-the-code.md",
    ROOT / "CHANGELOG.md",
    *sorted(ADRS.glob("*.md")),
]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _blocks(page: Path, language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_are_named_exist(page: Path) -> None:
    for path in re.findall(r"`((?:tests|streamsched|brokers|bench|docs|examples)/[\w./-]+)`", page.read_text()):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_no_merge_was_left_half_done(page: Path) -> None:
    assert not re.search(r"^(<<<<<<<|=======|>>>>>>>)", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", OURS, ids=_name)
def test_python_runs(page: Path) -> None:
    for number, block in enumerate(_blocks(page, "python"), start=1):
        names: dict[str, object] = {}
        exec("from streamsched import *\nfrom datetime import *\n" + block, names)
        assert names, f"block {number}"


def test_the_events_of_the_page_decode() -> None:
    blocks = list(_blocks(DOCS / "reference" / "events.md", "json"))
    assert len(blocks) >= 5
    for block in blocks:
        assert decode(block.encode(), fallback_id="log:partitions:0:1", fallback_time=datetime.now(UTC)).key


def test_the_page_of_events_names_every_verdict() -> None:
    text = (DOCS / "reference" / "events.md").read_text().partition("## Verdicts")[2]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(Verdict)


def test_the_page_of_suspending_has_the_table_of_the_code() -> None:
    text = (DOCS / "how-to" / "suspend-a-schedule.md").read_text()
    row = r"^\| `schedule (pause[ a-z-]*|disable)` \| ((?:yes|no)(?: \| (?:yes|no)){3}) \|$"
    rows = dict(re.findall(row, text, re.MULTILINE))
    found = {command: Activity(*(each == "yes" for each in cells.split(" | "))) for command, cells in rows.items()}
    modes = {"pause" if mode is PauseMode.KEEP else f"pause --{mode}": does for mode, does in ACTIVITIES.items()}
    assert found == {**modes, "disable": DISABLED}


def test_expressions_of_the_dapr_page_are_accepted_or_refused_as_it_says() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (accepted|refused)", (DOCS / "reference" / "dapr-cron.md").read_text(), re.M)
    assert len(rows) >= 12
    for expression, result in rows:
        try:
            check_cron(Cron(expression, "UTC", Dialect.DAPR))
            found = "accepted"
        except InvalidDefinitionError:
            found = "refused"
        assert found == result, expression


def test_the_index_names_every_decision_record() -> None:
    index = (ADRS / "README.md").read_text()
    for record in ADRS.glob("[0-9]*.md"):
        title = record.read_text().splitlines()[0]
        number, _, words = title.removeprefix("# ").partition(" · ")
        assert number == record.name[:4], title
        assert f"| [{number}]({record.name}) | {words} |" in index, record.name
