"""The embedded PostgreSQL under what happens to laptops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.store.server.embedded_server import RunningServer, start_server, stop_server

pytestmark = pytest.mark.postgres


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "postgres"
    yield path
    stop_server(path)


def pid_of(folder: Path) -> int:
    return int((folder / "postmaster.pid").read_text().splitlines()[0])


def leave(folder: Path) -> None:
    """A process starts the server and dies without a word."""
    code = (
        "import os, pathlib, sys; from streamsched.store.server.embedded_server import start_server;"
        "start_server(pathlib.Path(sys.argv[1])); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=False)


async def remember(server: RunningServer) -> None:
    connection = await asyncpg.connect(server.url)
    await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    await connection.close()


async def recall(server: RunningServer) -> int:
    connection = await asyncpg.connect(server.url)
    try:
        return await connection.fetchval("SELECT answer FROM kept")
    finally:
        await connection.close()


async def test_it_is_made_stopped_and_started_again_with_its_data(folder: Path) -> None:
    await remember(start_server(folder))
    stop_server(folder)
    assert not (folder / "postmaster.pid").exists()
    again = start_server(folder)
    assert not again.found
    assert await recall(again) == 42


async def test_a_server_left_by_a_dead_process_is_found_and_can_be_stopped(folder: Path) -> None:
    leave(folder)
    server = start_server(folder)
    assert server.found
    await remember(server)
    stop_server(folder)
    assert not (folder / "postmaster.pid").exists()


async def test_a_killed_server_comes_back_with_what_was_committed(folder: Path) -> None:
    await remember(start_server(folder))
    postmaster = psutil.Process(pid_of(folder))
    postmaster.kill()
    again = start_server(folder)
    assert not again.found
    assert await recall(again) == 42


async def test_a_pid_file_whose_number_was_given_away_is_not_believed(folder: Path) -> None:
    await remember(start_server(folder))
    content = (folder / "postmaster.pid").read_text().splitlines()
    stop_server(folder)
    (folder / "postmaster.pid").write_text("\n".join([str(os.getpid()), *content[1:]]) + "\n")
    assert await recall(start_server(folder)) == 42


def test_a_half_made_folder_is_made_anew(folder: Path) -> None:
    unfinished = folder.with_name("postgres.new")
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    assert start_server(folder).url.startswith("postgresql://")
    assert not unfinished.exists()


async def test_a_path_too_long_for_a_socket_and_with_spaces_works(tmp_path: Path) -> None:
    folder = tmp_path / ("a long name with spaces " * 4) / "postgres"
    folder.parent.mkdir()
    try:
        await remember(start_server(folder))
    finally:
        stop_server(folder)


async def test_a_path_with_spaces_and_a_percent_sign_works(tmp_path: Path) -> None:
    folder = tmp_path / "50% of it" / "postgres"
    folder.parent.mkdir()
    try:
        await remember(start_server(folder))
    finally:
        stop_server(folder)


def test_data_of_another_version_is_refused_with_both_versions(folder: Path) -> None:
    folder.mkdir()
    (folder / "PG_VERSION").write_text("12\n")
    with pytest.raises(ConfigurationError, match=r"PostgreSQL 12.*brings 18"):
        start_server(folder)


def test_a_server_is_in_a_process_group_of_its_own(folder: Path) -> None:
    start_server(folder)
    assert os.getpgid(pid_of(folder)) != os.getpgid(0)
    os.kill(pid_of(folder), signal.SIGCONT)
