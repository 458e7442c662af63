"""Output formats, repetition, completion and colours."""

from __future__ import annotations

import pytest
import yaml
from typer.testing import CliRunner

from streamsched.cli.main import make_app
from streamsched.cli.output import names_of, print_table
from streamsched.cli.shell.watching import repeat
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import ConfigurationError, UnavailableError
from tests.unit.cli.test_requests import Server, server

__all__ = ["server"]

PROGRAMS = {"programs": [{"id": f"default.a.p{number}", "type": "bash", "command": "x" * 90} for number in range(2)]}


def test_names_are_printed_one_per_line(server: Server) -> None:
    server.answer = PROGRAMS

    assert server.run("program", "list", "-o", "name") == "a.p0\na.p1\n"


def test_yaml_has_what_json_has(server: Server) -> None:
    server.answer = PROGRAMS

    assert yaml.safe_load(server.run("program", "list", "-o", "yaml")) == PROGRAMS["programs"]


def test_a_wide_table_has_unbroken_lines(server: Server) -> None:
    server.answer = PROGRAMS
    lines = server.run("program", "list", "-o", "wide", COLUMNS="40").splitlines()

    assert [line.split() for line in lines[1:]] == [[f"a.p{number}", "bash", "x" * 90] for number in range(2)]


def test_names_of_an_object() -> None:
    assert names_of({"id": "default.a.b", "app": "a"}) == ["a.b"]
    assert names_of({"name": "default.x"}) == ["default.x"]
    assert names_of({"items": [{"name": "x"}, {"name": "y"}]}) == ["x", "y"]
    with pytest.raises(ConfigurationError):
        names_of({"count": 3})


def test_repetition_prints_what_changed_and_survives_an_absent_server(capsys: pytest.CaptureFixture[str]) -> None:
    shown = iter(["one", "one", None, "two"])

    def show() -> None:
        text = next(shown, "end")
        if text == "end":
            raise KeyboardInterrupt
        if text is None:
            raise UnavailableError("away")
        print(text)  # noqa: T201

    repeat(show, pause=lambda _: None)
    captured = capsys.readouterr()

    assert captured.out == "one\ntwo\n"
    assert captured.err.count("error: away") == 1


def completed(words: str, **environ: str) -> list[str]:
    """What the completion of bash gets for these words."""
    settings = {"_STREAMSCHED_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    found = CliRunner(env={**settings, **environ}).invoke(make_app(), [], prog_name="streamsched")
    return found.output.split()


def test_completion_of_names(server: Server) -> None:
    server.answer = PROGRAMS
    url = f"http://127.0.0.1:{server._http.server_port}"

    assert completed("streamsched program start a.", STREAMSCHED_URL=url) == ["a.p0", "a.p1"]
    assert completed("streamsched program start default.a.p1", STREAMSCHED_URL=url) == ["default.a.p1"]
    assert completed("streamsched program start other", STREAMSCHED_URL=url) == []
    assert completed("streamsched sched") == ["schedule"]


def test_completion_is_silent_without_a_server() -> None:
    assert completed("streamsched schedule show a.", STREAMSCHED_URL="http://127.0.0.1:1") == []


def test_an_argument_that_looks_like_a_time_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "2026-03-01T06:00:00.5Z"
    print_table([{"value": text, "at": text}], (Column("value"), Column("at", kind=ColumnKind.TIME)), empty="")

    assert capsys.readouterr().out.splitlines()[1].split(maxsplit=1) == [text, "2026-03-01 06:00:00Z"]
