"""Texts that others wrote, at a terminal: none moves the cursor, sets the title, or turns the writing direction."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.cli import output
from streamsched.cli.shell.log_text import LogText

EVIL = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x1b\\",
    "clear": "\x1b[2J\x1b[1;1H",
    "line above": "\x1b[1A\x1b[2K",
    "c1": "\x9b2J\x9d0;owned\x9c",
    "bidi": "\u202eevil\u2066\u200f",
    "back": "right\b\b\b\b\bwrong",
    "over": "right\rwrong",
    "reset": "\x1bc",
    "conceal": "\x1b[1;8mhidden",
    "delete": "\x7f\x00\x05",
}
_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log(*parts: str) -> str:
    shown = LogText(terminal=True)
    return "".join(map(shown.part, parts)) + shown.end()


@pytest.mark.parametrize("evil", EVIL.values(), ids=list(EVIL))
def test_a_log_at_a_terminal_controls_nothing(evil: str) -> None:
    assert not _CONTROL.search(_STYLE.sub("", log(f"before {evil} after\n")))
    assert "\x1b[1;8m" not in log(evil)


def test_colours_and_lines_of_a_log_stay() -> None:
    assert log("\x1b[1;31mred\x1b[0m\tx\r\n\x1b[38;5;8mgrey\n") == "\x1b[1;31mred\x1b[0m\tx\n\x1b[38;5;8mgrey\n\x1b[0m"
    assert log("[Stage 0:> 1/2]\r[Stage 0:> 2/2]\r\n") == "[Stage 0:> 1/2]\n[Stage 0:> 2/2]\n"
    assert log("é ✓ 日本 👩‍👩‍👧\n") == "é ✓ 日本 👩‍👩‍👧\n"


@given(st.lists(st.text(alphabet="\x1b[]0;8m\r\nJa\x9b"), max_size=6))
def test_a_log_is_shown_the_same_however_it_is_cut(parts: list[str]) -> None:
    whole = log("".join(parts))
    assert log(*parts) == whole
    assert not _CONTROL.search(_STYLE.sub("", whole))


def test_a_log_in_a_pipe_is_as_it_was_written() -> None:
    shown = LogText(terminal=False)
    assert "".join(map(shown.part, EVIL.values())) + shown.end() == "".join(EVIL.values())


@pytest.mark.parametrize("evil", EVIL.values(), ids=list(EVIL))
def test_what_commands_print_controls_nothing(evil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    out = output.console()
    assert out.is_terminal
    row: dict[str, Any] = {"id": f"run {evil}", "reason": evil}
    out.print(f"run {evil} is done", markup=False)
    out.print(f"[bold]{output.escape_text(evil)}[/]")
    output.print_record(row)
    output.print_table([row], ["id", "reason"], empty="none")
    output.print_json(row)
    output.print_structured(row, output.Format.YAML)
    output.print_structured(row, output.Format.NAME)
    assert not _CONTROL.search(_STYLE.sub("", terminal.getvalue()))
    assert "\x1b[1m" in terminal.getvalue(), "its own styles stay"


def test_json_at_a_terminal_has_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    output.print_json({**EVIL, "well": "é ✓ 日本 \U000e0001"})
    assert json.loads(terminal.getvalue()) == {**EVIL, "well": "é ✓ 日本 \U000e0001"}
