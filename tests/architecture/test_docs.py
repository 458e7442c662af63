"""What pages say can be typed exists: commands, options, settings, links; and what is Python is Python."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

import streamsched
from streamsched import App
from streamsched.cli.main import make_app
from streamsched.config import Settings
from streamsched.setting_values import variable, variables_of
from tests.support.docs_pages import ROOT, all_pages, blocks, every_page
from tests.trial import named_kinds

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in all_pages()]
EVERY = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in every_page()]
COMMANDS = typer.main.get_command(make_app())
#: Functions of definitions, whose calls in prose are evaluated.
DEFINITIONS = {name for name in streamsched.__all__ if name.islower()} - {
    "current_run",
    "partitions_added",
    "write_batches",
}
#: Read by commands and emitters; all others are fields of `Settings`.
OUTSIDE_SETTINGS = re.compile(r"STREAMSCHED_(URL|TOKEN|CONTEXT|CONFIG_DIR|SPOOL|ARG_\w*|KAFKA_CACHE|TEST_\w+)")


#: A row of the table of stations: number, file, function, and what it opens next.
_STATION = re.compile(r"^\| (\d+) \| [^|]+ \| `([^`]+)`: `([^`]+)` \| [^|]+ \| ([^|]+) \|$", flags=re.MULTILINE)
_NAMED = re.compile(r"`([\w/]+\.py)`: `([\w.]+)`")


def quoted(page: Path) -> list[str]:
    """What stands between backticks outside of code blocks; table cells without their escapes."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [text.replace("\\|", "|") for text in re.findall(r"`([^`]+)`", prose)]


def typed(page: Path) -> Iterator[list[str]]:
    """Every `streamsched …` of the page's shell blocks and of its prose, as words, without pipes and comments."""
    for text in quoted(page):
        if text.startswith("streamsched "):
            yield text.split()[1:]
    for block in blocks(page.read_text()):
        if block.language == "console":
            lines = [re.sub(r" *\\\n>? *", " ", command) for command, _ in block.steps()]
        else:
            lines = block.text.splitlines() if block.language == "sh" else []
        for line in lines:
            for part in re.split(r"&&|\||&$", line):
                words = shlex.split(part, comments=True)
                if words[:1] == ["streamsched"]:
                    yield words[1:]


def check(words: list[str]) -> None:
    """Raises:
    AssertionError: there is no such command, or it has no such option.
    """
    command: Any = COMMANDS
    while words and words[0].startswith("--"):  # an option of the whole command line
        name, equals, _ = words[0].partition("=")
        flags = {option: each.is_flag for each in command.params for option in each.opts} | {"--help": True}
        assert name in flags, f"streamsched has no option {name}"
        words = words[1 if flags[name] or equals else 2 :]
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        if not words or command.name in {"emit"} or words[0] == "COMMAND":
            return  # a group is named, or any of its commands
        assert words[0] in command.commands, f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in options, f"{command.name} has no option {word}"


@pytest.mark.parametrize("page", EVERY)
def test_commands_exist(page: Path) -> None:
    for words in typed(page):
        check(words)


@pytest.mark.parametrize("page", EVERY)
def test_make_has_the_targets_that_are_named(page: Path) -> None:
    makefile, text = (ROOT / "Makefile").read_text(), page.read_text()
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert set(re.findall(r"make trial KIND=([a-z0-9-]+)", text)) <= named_kinds().keys()


@pytest.mark.parametrize("page", EVERY)
def test_the_package_is_installed_from_a_clone(page: Path) -> None:
    """It is in no registry: `pip install streamsched` would find nothing, or a package of strangers."""
    assert not re.search(r"pip install[^\n]*\bstreamsched\b", page.read_text()), "write CLONE"


@pytest.mark.parametrize("page", PAGES)
def test_settings_exist(page: Path) -> None:
    known = {variable(each.name) for each in variables_of(Settings)}
    for name in re.findall(r"STREAMSCHED_[A-Z_]+", page.read_text()):
        assert OUTSIDE_SETTINGS.match(name) or name in known


@pytest.mark.parametrize("page", PAGES)
def test_python_is_python(page: Path) -> None:
    """Blocks that are files run in a walkthrough, the one that reads a run in `integration/spark/test_told.py`."""
    for block in blocks(page.read_text()):
        if block.language == "python":
            code = compile(block.text, page.name, "exec")
            if block.file is None and "current_run()" not in block.text:
                exec(code, {"__name__": "docs"})


@pytest.mark.parametrize("page", PAGES)
def test_definitions_in_prose_are_accepted(page: Path) -> None:
    names = {name: getattr(streamsched, name) for name in streamsched.__all__ if name in DEFINITIONS}
    programs = {"other": "app.other", "backup": "app.backup", "rescue": App("docs").bash("rescue", "true")}
    for text in quoted(page):
        found = re.fullmatch(r"(?:\w+=)?(\[?\(?(\w+)\(.*)", text)
        if found is not None and found[2] in DEFINITIONS and "…" not in text:
            eval(found[1], {**names, **programs})  # of our own text


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", (ROOT / "docs" / "index.md").read_text()))
    folders = ("tutorial", "how-to", "explanation", "reference")
    pages = {f"{folder}/{page.name}" for folder in folders for page in (ROOT / "docs" / folder).glob("*.md")}
    assert {page for page in pages if not page.rpartition("/")[2].startswith("_")} <= linked


def defined(path: str) -> set[str]:
    """Names of the functions and methods of a module, such as `Emitter.emit`."""
    found = set[str]()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            functions = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{each.name}" for each in functions}
    return found


def test_the_functions_of_the_stations_exist_and_open_what_the_page_says() -> None:
    stations = _STATION.findall((ROOT / "docs/explanation/one-event.md").read_text())

    assert [int(number) for number, *_ in stations] == list(range(1, 11))
    for _, path, function, opens in stations:
        assert function in defined(path), f"{path} has no {function}"
        named = _NAMED.findall(opens)
        assert named, opens
        for next_path, next_function in named:
            assert next_function in defined(next_path), f"{next_path} has no {next_function}"
        called = named[0][1].rpartition(".")[2]
        assert re.search(rf"\b{called}\(", (ROOT / path).read_text()), f"{path} does not call {called}"


def test_the_readme_names_the_ten_stations() -> None:
    way = (ROOT / "README.md").read_text().split("Each event takes")[1].split("The functions of")[0]

    assert way.count("→") == 9


def test_the_page_of_rooms_has_the_layers_of_the_import_rules() -> None:
    rules = (ROOT / ".importlinter").read_text()
    layers = re.findall(r"^    ([\w |()]+)$", rules.split("layers =")[1].split("#")[0], re.MULTILINE)
    table = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs/explanation/rooms.md").read_text(), re.MULTILINE)

    assert [set(re.findall(r"\w+", row)) for row in table] == [set(re.findall(r"\w+", layer)) for layer in layers]


@pytest.mark.parametrize("page", EVERY)
def test_a_test_that_a_page_names_exists(page: Path) -> None:
    for text in quoted(page):
        if text.startswith("tests/") and "::" in text:
            file, _, name = text.partition("::")
            assert re.search(
                rf"^ *(async )?def {name.rpartition('::')[2]}\(", (ROOT / file).read_text(), re.MULTILINE
            ), text
