"""The help of every command: complete, not cut at 80 columns, with a text for each option and argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from streamsched.cli.main import make_app

NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


APP = make_app()
COMMANDS = dict(_commands(get_command(APP)))


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "streamsched")
def test_help_is_not_cut_and_fits_80_columns(path: tuple[str, ...]) -> None:
    found = CliRunner(env=NARROW).invoke(APP, [*path, "--help"])
    usage, _, text = found.output.partition("\n\n")

    assert found.exit_code == 0
    assert usage.startswith("Usage: ")
    assert "..." not in text, text
    assert max(map(len, found.output.splitlines())) <= 80


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "streamsched")
def test_every_command_option_and_argument_has_a_text(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]

    assert command.help.strip().endswith(".")
    assert [each.name for each in command.params if not each.help] == []


@pytest.mark.parametrize("path", [path for path, each in COMMANDS.items() if hasattr(each, "commands")])
def test_a_group_lists_the_first_sentence_of_each_command(path: tuple[str, ...]) -> None:
    shown = " ".join(CliRunner(env=NARROW).invoke(APP, [*path, "--help"]).output.split())

    for name, inner in COMMANDS[path].commands.items():
        paragraph = " ".join(inner.help.split("\n\n")[0].split())
        assert f"{name} {paragraph.partition('. ')[0].rstrip('.')}." in shown
