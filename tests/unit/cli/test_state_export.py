"""Exports replace a file atomically."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from streamsched.cli.commands.admin import whole_file


def test_an_existing_export_is_replaced_atomically(tmp_path: Path) -> None:
    file = tmp_path / "state.jsonl"
    file.write_bytes(b"yesterday's")

    with suppress(EOFError), whole_file(file) as out:
        out.write(b"half of")
        raise EOFError

    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"yesterday's"]

    with whole_file(file) as out:
        out.write(b"today's")

    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"today's"]


def test_a_special_file_is_written_directly(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "far")

    with whole_file(link) as out:
        out.write(b"all")

    assert link.is_symlink()
    assert (tmp_path / "far").read_bytes() == b"all"
