"""Options that a command refuses before it opens anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamsched.cli.main import make_app

DATABASE = {"STREAMSCHED_DATABASE_URL": "postgresql://localhost/none"}


def test_the_listen_address_of_the_api_is_checked() -> None:
    found = CliRunner().invoke(make_app(), ["api", "--host", "::1", "--port", "70000"], env=DATABASE)

    assert found.exit_code == 2
    assert "STREAMSCHED_API_PORT must be from 0" in found.output


@pytest.mark.parametrize(("file", "words"), [("gone.jsonl", "No such file"), (".", "Is a directory")])
def test_an_unreadable_import_file_is_a_one_line_error(tmp_path: Path, file: str, words: str) -> None:
    found = CliRunner().invoke(make_app(), ["state", "import", str(tmp_path / file)], env=DATABASE)

    assert found.exit_code == 2
    assert found.output.startswith(f"error: FILE: {tmp_path / file} cannot be opened: {words}")


@pytest.mark.parametrize("options", [("--drain", "--backlog"), ("--keep", "--drain"), ("--drop", "--backlog")])
def test_a_pause_has_one_mode(options: tuple[str, str]) -> None:
    found = CliRunner().invoke(make_app(), ["schedule", "pause", "a.s", *options, "--url", "http://127.0.0.1:1"])

    assert found.exit_code == 2
    assert "at most one of --keep, --drop, --drain and --backlog" in " ".join(found.output.split())
