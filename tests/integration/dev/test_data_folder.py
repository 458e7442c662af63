"""The data folder of `streamsched dev` as a person moves it: backed up, restored, renamed, of an earlier schema."""

from __future__ import annotations

import os
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from streamsched.roles import embedded
from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.migrate import migrate
from streamsched.store.server.revisions import Revisions
from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900), pytest.mark.long]

RUN = "default.demo.two.1.1.r1"
APP = """
from streamsched import App, partitions

app = App("demo")
hello = app.bash("hello", "echo hello from $STREAMSCHED_RUN_ID")
app.schedule("two", hello, when=partitions("flights", 2))
"""


def state_of(dev: DevProcess, run: str, data_dir: str = ".streamsched") -> str:
    found = dev.run("run", "show", run, "-o", "json", STREAMSCHED_DATA_DIR=data_dir)
    return found.json["state"] if found.code == 0 else ""


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[DevProcess]:
    """A scheduler that has run a program, with one more event counted, and is stopped."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    dev = DevProcess(folder)
    try:
        dev.start()
        assert dev.run("deploy", "app.py").code == 0
        assert dev.run("event", "emit", "partitions", "flights", "day=1", "day=2").code == 0
        assert dev.run("event", "emit", "partitions", "flights", "day=3").code == 0
        dev.until(lambda: state_of(dev, RUN) == "COMPLETED")
        dev.stop()
        yield dev
    finally:
        dev.close()


def test_a_backup_is_refused_while_it_runs_and_restored_in_another_folder(stopped: DevProcess, tmp_path: Path) -> None:
    archive, elsewhere = tmp_path / "streamsched.tar.gz", tmp_path / "other" / "data"
    stopped.start()
    log = stopped.run("run", "logs", RUN).out
    refused = stopped.run("data", "backup", str(archive), within=240)
    assert (refused.code, "already runs in" in refused.err, "stop it first" in refused.err) == (2, True, True), refused
    assert not archive.exists()
    assert stopped.run("schedule", "list").code == 0, "it goes on"
    stopped.stop(signal.SIGKILL)  # its PostgreSQL is left

    made = stopped.run("data", "backup", str(archive), within=240)
    assert made.code == 0, made
    assert archive.stat().st_mode & 0o077 == 0
    with tarfile.open(archive) as tar:
        names = set(tar.getnames())
    assert {"streamsched-data.json", "token", "postgres/PG_VERSION", f"logs/{RUN}.log"} <= names
    assert not names & {"lock", "dev.json", "postgres/postmaster.pid"}
    again = stopped.run("data", "backup", str(archive), within=240)
    assert (again.code, "exists" in again.err) == (4, True), again
    inside = stopped.run("data", "backup", str(stopped.state / "x.tar.gz"), within=240)
    assert (inside.code, "elsewhere" in inside.err) == (4, True), inside

    restored = stopped.run("data", "restore", str(archive), "--data-dir", str(elsewhere), within=240)
    assert restored.code == 0, restored
    taken = stopped.run("data", "restore", str(archive), "--data-dir", str(elsewhere), within=240)
    assert (taken.code, "not empty" in taken.err) == (4, True), taken
    stopped.state.rename(tmp_path / "former")  # nothing of the former place is found
    said = stopped.start("--data-dir", str(elsewhere))
    assert f"its folder was {stopped.state}; 1 log of a run was found here" in said
    assert "it continues with the stored state" in said
    data_dir = str(elsewhere)
    assert stopped.run("run", "logs", RUN, STREAMSCHED_DATA_DIR=data_dir).out == log != ""
    one = stopped.run("schedule", "show", "demo.two", "-o", "json", STREAMSCHED_DATA_DIR=data_dir).json["progress"]
    assert one["have"] == 1, "what was counted is kept"
    assert stopped.run("event", "emit", "partitions", "flights", "day=4", STREAMSCHED_DATA_DIR=data_dir).code == 0
    stopped.until(lambda: state_of(stopped, "default.demo.two.1.2.r1", data_dir) == "COMPLETED")
    stopped.stop()
    assert "its folder was" not in stopped.start("--data-dir", str(elsewhere))


def test_a_stopped_folder_may_be_renamed(stopped: DevProcess, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    stopped.state.rename(moved)
    assert f"its folder was {stopped.state}; 1 log of a run was found here" in stopped.start("--data-dir", str(moved))
    assert RUN in stopped.run("run", "logs", RUN, STREAMSCHED_DATA_DIR=str(moved)).out


def test_a_folder_before_the_first_release_is_refused_with_a_line(tmp_path: Path) -> None:
    dev, postgres = DevProcess(tmp_path), tmp_path / ".streamsched" / "postgres"
    postgres.parent.mkdir()
    url = start_server(postgres).url
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE alembic_version (version_num text)")
            connection.execute("INSERT INTO alembic_version VALUES ('0134_pre')")
            connection.execute("CREATE TABLE jobs (told text)")
    finally:
        stop_server(postgres)

    said = dev.run("dev", "--port", "0")

    assert said.code != 0
    (line,) = said.err.strip().splitlines()
    assert line.startswith("error: the database is older than release 0.1.0 (schema 0134_pre) and is left as it is")


def test_a_start_that_migrates_says_from_which_schema(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(empty_database)
    assert list(embedded._migrate(empty_database)) == []

    next_release = Revisions(frozenset({"0001_initial", "0002_pre"}), ("0002_pre",))
    monkeypatch.setattr(embedded, "revisions", lambda: next_release)

    (line,) = embedded._migrate(empty_database)
    assert line == "its data was upgraded from schema 0001_initial to 0002_pre; there is no way back"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a folder."""
    folder = tmp_path_factory.mktemp("whole")
    (postgres := folder / "source" / "postgres").mkdir(parents=True)
    (postgres / "PG_VERSION").write_text("18\n")
    (folder / "source" / "big").write_bytes(os.urandom(100_000))
    archive = folder / "whole.tar.gz"
    made = DevProcess(folder).run("data", "backup", str(archive), "--data-dir", str(folder / "source"), within=240)
    assert made.code == 0, made
    return archive


@pytest.mark.parametrize("damage", ["no archive", "cut", "empty", "missing", "leads out"])
def test_what_is_no_archive_restores_nothing(whole: Path, tmp_path: Path, damage: str) -> None:
    dev, archive, folder = DevProcess(tmp_path), tmp_path / "given.tar.gz", tmp_path / "data"
    match damage:
        case "no archive":
            archive.write_text("nothing")
        case "cut":
            archive.write_bytes(whole.read_bytes()[:-5000])
        case "empty":
            archive.touch()
        case "leads out":
            with tarfile.open(whole) as given, tarfile.open(archive, "w:gz") as tar:
                member = given.next()
                assert member is not None
                tar.addfile(member, given.extractfile(member))
                leading = tarfile.TarInfo("../out")
                tar.addfile(leading)
    refused = dev.run("data", "restore", str(archive), "--data-dir", str(folder), within=240)
    assert refused.code in {2, 3}, refused
    assert "Traceback" not in refused.err
    assert not folder.exists()
    assert not (tmp_path / "out").exists()
    assert [each.name for each in tmp_path.iterdir() if "restoring" in each.name] == []
