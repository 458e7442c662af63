"""The README is short, its twelve lines are an app, and the files of its journey are there."""

from __future__ import annotations

import re
from pathlib import Path

from streamsched.codec.schedules.schedule import program_to_json
from streamsched.define.loading import load_app
from tests.support.docs_pages import ROOT, blocks

TEXT = (ROOT / "README.md").read_text()
FILES = {block.file: block.text for block in blocks(TEXT) if block.file}

#: Arguments of every scheduled run, and of those that the end of a program starts.
GIVEN = {f"trigger.{name}" for name in ("job", "schedule", "satisfied_at", "program", "run", "outcome")}
GIVEN |= {"trigger.error", "trigger.log_tail"}


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 130


def test_the_twelve_lines_are_an_app(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(FILES["pipeline.py"])

    app = load_app(str(tmp_path / "pipeline.py"))

    assert len(FILES["pipeline.py"].splitlines()) <= 12
    assert [each.ref.name for each in app.schedules] == ["weekly-join", "weekly-report"]


def test_programs_of_the_docs_ask_for_arguments_that_their_runs_have(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "programs-without-a-process.md").read_text()
    (source,) = (block.text for block in blocks(page) if block.file)
    (tmp_path / "alarm.py").write_text(source)

    programs = load_app(str(tmp_path / "alarm.py")).programs

    assert len(programs) == 3
    for program in programs:
        asked = set(re.findall(r"\{([a-z_.]+)\}", str(program_to_json(program))))
        assert asked <= {*program.arguments, *GIVEN}
