"""The log of a run: what is read in its place, and how it stays within its limit."""

from __future__ import annotations

# ruff: noqa: ASYNC240  (small files, and no other task on this loop)
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamsched.api.routes.runs import read_log
from streamsched.domain.errors import NotFoundError
from streamsched.spark.run_log import HEAD, LogBound, create_log, end_of, read_end, read_part

LIMIT = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "r1.log"


def record(path: Path) -> Any:
    return SimpleNamespace(id="r1", log_path=str(path))


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder of a link"])
async def test_what_a_program_put_in_the_place_of_its_log_is_not_read(kind: str, path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "r1.log"
    secret.write_text("the token of an administrator")
    match kind:
        case "link":
            path.symlink_to(secret)
        case "second name":
            path.hardlink_to(secret)
        case "pipe":
            os.mkfifo(path)
        case _:
            path.parent.rmdir()
            path.parent.symlink_to(tmp_path)

    with pytest.raises(NotFoundError):
        await read_log(record(path), tail=10)
    with pytest.raises(NotFoundError):
        await read_log(record(path), tail=10, offset=0)
    assert end_of(path) == ""


def test_a_log_is_its_owners_only_and_no_link_is_followed(path: Path, tmp_path: Path) -> None:
    create_log(path)

    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        create_log(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_long_log_keeps_its_beginning_and_its_end_while_the_program_writes(path: Path) -> None:
    create_log(path)
    bound = LogBound(path, LIMIT)
    written = 0
    with path.open("ab", buffering=0) as program:
        for number in range(40):
            written += program.write(b"".join(b"%09d\n" % (number * 20_000 + line) for line in range(20_000)))
            bound.keep()

    found = path.stat()
    assert found.st_size == written == 8_000_000
    assert found.st_blocks * 512 <= LIMIT
    head, offset = read_part(path, 0, 4 << 20)
    assert head.startswith(b"000000000\n")
    assert HEAD <= offset == len(head) < HEAD + (64 << 10)
    note, end = read_part(path, offset, 4 << 20)
    assert note == f"\n[{end - offset} bytes of this log were left out: STREAMSCHED_LOG_LIMIT]\n".encode()
    rest, last = read_part(path, end, 4 << 20)
    assert last == written
    assert rest.endswith(b"000799999\n")
    assert len(rest) >= LIMIT // 2
    assert read_part(path, last, 4 << 20) == (b"", last)
    tail, at = read_end(path, 4 << 20)
    assert (tail, at) == (note + rest, written)
    assert b"\0" not in head + rest
    bound.close()


def test_a_log_within_its_limit_is_whole(path: Path) -> None:
    create_log(path)
    path.write_bytes(b"x" * (LIMIT - 8192))
    bound = LogBound(path, LIMIT)

    bound.keep()

    assert read_end(path, 4 << 20)[0] == b"x" * (LIMIT - 8192)
    assert bound.left_out == 0
    bound.close()


def test_a_log_that_another_file_has_replaced_is_bounded_too(path: Path) -> None:
    create_log(path)
    bound = LogBound(path, LIMIT)
    bound.keep()
    other = path.with_name("driver.log")
    other.write_bytes(b"x" * (4 * LIMIT))
    other.rename(path)  # as a prepared driver's log becomes the run's

    bound.keep()

    assert bound.left_out > LIMIT
    bound.close()
