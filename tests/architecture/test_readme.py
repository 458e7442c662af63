"""What the README says can be typed, exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from streamsched import App
from streamsched.cli.main import make_app
from streamsched.codec.schedule import program_to_json
from streamsched.define.loading import load_app
from streamsched.domain.names import ProgramRef

TEXT = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
QUOTED = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL))

#: Arguments of every scheduled run.
ALWAYS = {"trigger.job", "trigger.schedule", "trigger.satisfied_at"}


def every(command: Any, name: str = "") -> Iterator[str]:
    """Names of all commands, such as `job why`; of `event emit`, which has some of its own, no more than that."""
    if isinstance(command, TyperGroup) and " " not in name:
        for word, each in command.commands.items():
            yield from every(each, f"{name} {word}".strip())
    else:
        yield name


def typed() -> Iterator[str]:
    """Names of commands in the README; `job list|why` are two, and need no `streamsched` in front."""
    shell = re.findall(r"^```sh\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    for text in (*QUOTED, *re.findall(r"streamsched [a-z ]+", "".join(shell))):
        first, *rest = text.removeprefix("streamsched ").split() or [""]
        yield first
        yield from (f"{first} {each}" for each in re.split(r"\\?\|", rest[0] if rest else ""))


def test_every_command_is_named() -> None:
    assert set(every(typer.main.get_command(make_app()))) <= set(typed())


def test_every_command_that_is_named_is_one() -> None:
    known = set(every(typer.main.get_command(make_app())))
    groups = {name.partition(" ")[0] for name in known if " " in name}
    named = [text.removeprefix("streamsched ").split() for text in QUOTED if re.match("streamsched [a-z]", text)]

    for words in named:
        if words[0] in groups and words[1:]:
            assert {f"{words[0]} {each}" for each in re.split(r"\\?\|", words[1])} <= known
        else:
            assert words[0] in known | groups


def test_the_twelve_lines_are_an_app(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(BLOCKS[0])

    app = load_app(str(tmp_path / "pipeline.py"))

    assert len(BLOCKS[0].splitlines()) <= 12
    assert [each.ref.name for each in app.schedules] == ["weekly-join", "weekly-report"]


def test_python_is_python() -> None:
    for block in (*BLOCKS, *(text for text in QUOTED if text.startswith("with "))):
        compile(block, "README.md", "exec")


@pytest.mark.parametrize("kind", ["bash", "http", "publish"])
def test_programs_ask_for_arguments_that_their_runs_have(kind: str) -> None:
    app = App("readme")
    call = next(" ".join(text.split()) for text in QUOTED if text.startswith(f"app.{kind}("))

    made = eval(call, {"app": app})  # of our own text

    assert isinstance(made, ProgramRef)
    program = app.definition().programs[0]
    asked = set(re.findall(r"\{([a-z_.]+)\}", str(program_to_json(program))))
    assert asked <= {*program.arguments, *ALWAYS}
