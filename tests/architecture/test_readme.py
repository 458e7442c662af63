"""The README is short, its twelve lines are an app, and the files of its journey are there."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import distributions
from pathlib import Path

import pytest

from streamsched.cli.commands.deploy import DIFFERS
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


def test_the_program_that_the_tutorial_shares_with_the_readme_is_the_same_text() -> None:
    page = (ROOT / "docs" / "tutorial" / "4-spark.md").read_text()
    assert {block.file: block.text for block in blocks(page) if block.file}["land.py"] == FILES["land.py"]


def test_the_tutorial_says_the_exit_code_of_diff() -> None:
    page = (ROOT / "docs" / "tutorial" / "2-composition.md").read_text()
    assert re.search(rf"exit code\s+of `diff` is {DIFFERS}\b", page)


@pytest.mark.parametrize("name", ["demo", "delta", "dev", "fuzz"])
def test_make_says_what_it_installs_before_it_does(name: str) -> None:
    said = subprocess.run(
        ("make", "--dry-run", "--always-make", f".venv/.{name.replace('delta', 'demo-delta')}"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    line, command = re.search(r'^echo "(installing into .*)"$\n(.*)', said, re.MULTILINE | re.DOTALL).groups()  # type: ignore[union-attr]
    assert command.startswith(".venv/bin/python -m pip install")
    listed = re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE)
    counted = subprocess.run(("bash", "-c", f'echo "{line}"'), cwd=ROOT, capture_output=True, text=True, check=True)
    assert f" {len(listed)} Python packages of requirements/{name}.txt, " in counted.stdout
    assert "Debian" in line
    assert "jars" in line
    says = float(re.search(r"([\d.]+) GB on disk", line)[1]) * 1e9  # type: ignore[index]
    assert abs(size_of(listed) / says - 1) < 0.3


def size_of(names: list[str]) -> int:
    """Bytes of the files of those distributions that are installed here."""
    found = (each for each in distributions() if each.metadata["Name"] in names)
    files = {Path(str(path.locate())) for each in found for path in each.files or ()}
    return sum(path.stat().st_size for path in files if path.is_file())


def test_programs_of_the_docs_ask_for_arguments_that_their_runs_have(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "programs-without-a-process.md").read_text()
    (source,) = (block.text for block in blocks(page) if block.file)
    (tmp_path / "alarm.py").write_text(source)

    programs = load_app(str(tmp_path / "alarm.py")).programs

    assert len(programs) == 3
    for program in programs:
        asked = set(re.findall(r"\{([a-z_.]+)\}", str(program_to_json(program))))
        assert asked <= {*program.arguments, *GIVEN}
