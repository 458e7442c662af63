"""The README's first section, typed literally in an empty folder: deploy, land, see, break, mend. Real parts
throughout: `streamsched dev` with its PostgreSQL, Spark, the command line.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.support.dev_process import DevProcess
from tests.support.docs_pages import ROOT, Walkthrough, blocks

README: Final = (ROOT / "README.md").read_text()
TRANSCRIPT: Final = ROOT / "tests" / "golden" / "newcomer" / "transcript.md"


def typed() -> list[str]:
    """The commands of the README without their comments."""
    lines = [line for block in blocks(README) if block.language == "sh" for line in block.text.splitlines()]
    return [" ".join(shlex.split(line, comments=True)) for line in lines]


def test_the_transcript_begins_with_the_commands_of_the_readme() -> None:
    transcript = [command for block in blocks(TRANSCRIPT.read_text()) for command, _ in block.steps()]
    setup, commands = typed()[:-5], typed()[-5:]

    assert [command.split()[0] for command in setup] == ["python3", "pip"]
    assert transcript[:5] == commands


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_the_journey_of_a_new_user(java: None, tmp_path: Path) -> None:
    walkthrough = Walkthrough(DevProcess(tmp_path))
    try:
        walkthrough.write_files(ROOT / "README.md")
        walkthrough.follow(TRANSCRIPT)
    finally:
        walkthrough.close()
