"""Logs at a terminal: colours stay; whatever else would control the terminal is shown as an escape."""

from __future__ import annotations

import re
from typing import Final

from streamsched.cli.table import plain_text

#: Colours and weights.
_STYLE: Final = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")
#: Numbers after which others name a colour, and the one that conceals text.
_COLOURED: Final = frozenset({"38", "48", "58"})
_CONCEALED: Final = "8"
#: What may be the beginning of a style, or of an end of a line, whose rest is still to come.
_BEGUN: Final = re.compile(r"(?:\x1b(?:\[[0-9;:]{0,40})?|\r)\Z")
_RESET: Final = "\x1b[0m"


class LogText:
    """Turns the parts of a log, cut anywhere, into what is printed. Without a `terminal` it stays as it is.

    At a terminal a carriage return is an end of a line, so no line is written over.
    """

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal
        self._held = ""
        self._styled = False

    def part(self, text: str) -> str:
        """What is printed of the next part."""
        if not self._terminal:
            return text
        text = self._held + text
        begun = _BEGUN.search(text)
        self._held = begun[0] if begun else ""
        return self._escape_text(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """What is printed after the last part: what was held back, and the end of its colours."""
        held, self._held = self._held, ""
        return self._escape_text(held) + (_RESET if self._styled else "")

    def _escape_text(self, text: str) -> str:
        pieces = _STYLE.split(text.replace("\r\n", "\n").replace("\r", "\n"))
        return "".join(self._style(each) if place % 2 else _visible_text(each) for place, each in enumerate(pieces))

    def _style(self, sequence: str) -> str:
        numbers = {each.lstrip("0") for each in re.split("[;:]", sequence[2:-1])}
        if _CONCEALED in numbers and not numbers & _COLOURED:
            return plain_text(sequence)
        self._styled = True
        return sequence


def _visible_text(text: str) -> str:
    return "\t".join(map(plain_text, text.split("\t")))
