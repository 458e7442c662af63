"""Markdown from docstrings and tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from streamsched.domain.time.duration import duration_text

REFERENCE: Final = Path(__file__).parents[3] / "docs" / "reference"
_SECTION: Final = re.compile(r"(Args|Attributes|Raises|Returns):")
_ITEM: Final = re.compile(r" {4}(?P<names>\w[\w, ]*): (?P<text>.*)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(each.replace("|", "\\|").replace("\n", " ") for each in line) + " |" for line in lines]


def fenced(language: str, text: str) -> list[str]:
    return [f"```{language}", text.rstrip("\n"), "```"]


def described(docstring: str | None) -> list[str]:
    """Lines of Markdown: doctests become Python blocks, sections such as `Args:` become lists."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "")):
        if block.startswith(">>>"):
            lines += [*fenced("python", _statements(block)), ""]
        elif matched := _SECTION.match(block):
            title = {"Args": "Arguments", "Raises": "Errors"}.get(matched[1], matched[1])
            lines += [f"{title}:", "", *(f"- `{names}`: {text}" for names, text in items(block)), ""]
        elif block.startswith(("|", "    ")):
            lines += [*block.splitlines(), ""]
        elif block:
            lines += [" ".join(block.split()), ""]
    return lines


def items(block: str) -> list[tuple[str, str]]:
    """Names and texts of a docstring's section, continuation lines joined."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines()[1:]:
        if matched := _ITEM.fullmatch(line):
            found.append((matched["names"], matched["text"]))
        elif found:
            names, text = found[-1]
            found[-1] = (names, f"{text} {line.strip()}")
    return found


def section(docstring: str | None, title: str) -> list[tuple[str, str]]:
    """One section of a docstring: names and texts."""
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "")):
        if block.startswith(f"{title}:"):
            return items(block)
    return []


def callable_(name: str, function: Any) -> list[str]:
    """A heading, the signature and the docstring of a function users call."""
    return [f"### `{name}`", "", *fenced("text", _signature(name, function)), "", *described(function.__doc__)]


def _signature(name: str, function: Any) -> str:
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    texts = [_parameter(each) for each in parameters]
    keyword_only = [index for index, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY]
    if keyword_only and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        texts.insert(keyword_only[0], "*")
    line = f"{name}({', '.join(texts)})"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + ")"


def _parameter(parameter: inspect.Parameter) -> str:
    """Name, annotation and default as source text; an enum's member is its value."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}: {parameter.annotation}"
    return text if parameter.default is parameter.empty else f"{text} = {_literal(parameter.default)}"


def _literal(value: object) -> str:
    match value:
        case StrEnum():
            return repr(value.value)
        case tuple():
            return f"({', '.join(map(_literal, value))})"
        case timedelta():
            return repr(duration_text(value))
        case _:
            return repr(value)


def _statements(block: str) -> str:
    """A doctest as a program, with its output as comments."""
    marks = {">>> ": "", "... ": ""}
    return "\n".join(
        marks.get(line[:4], "# ") + (line[4:] if line[:4] in marks else line) for line in block.splitlines()
    )
