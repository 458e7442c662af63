"""Where a process sends its events, and the namespace of names that have none."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from streamsched.cli.server import DEFAULT_URL, find_url
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.domain.events.event import Partition
from streamsched.emit import Emitter, custom, partitions_added, stream_size
from streamsched.emit.destination import Destination, find_destination, namespace
from streamsched.emit.no_listener_warning import warn_no_listeners
from streamsched.spark.pfs import PartitionedFileSet


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in which nothing runs, and no variable of ours."""
    for name in ("EMIT_URL", "URL", "SPOOL", "NAMESPACE", "DATA_DIR", "RUN_ID"):
        monkeypatch.delenv(f"STREAMSCHED_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runs_in(folder: Path, url: str) -> Path:
    state = folder / ".streamsched"
    state.mkdir(parents=True)
    (state / "dev.json").write_text(json.dumps({"url": url, "pid": 1}))
    return state


def test_a_folder_and_those_below_it_belong_to_their_dev(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = runs_in(nowhere, "http://127.0.0.1:1")
    below = nowhere / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert find_destination() == Destination("http://127.0.0.1:1", state / "spool" / "outside-runs")
    assert find_url() == "http://127.0.0.1:1"


def test_the_nearest_dev_decides(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it is stopped: what was meant for it must not go to another one."""
    runs_in(nowhere, "http://127.0.0.1:1")
    near = runs_in(nowhere / "a", "http://127.0.0.1:2")
    monkeypatch.chdir(nowhere / "a")

    assert find_destination() == Destination("http://127.0.0.1:2", near / "spool" / "outside-runs")

    (near / "dev.json").unlink()
    assert find_destination() is None
    assert find_url() == DEFAULT_URL


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"STREAMSCHED_EMIT_URL": "http://e", "STREAMSCHED_URL": "http://u"}, "http://e"),
        ({"STREAMSCHED_URL": "http://u"}, "http://u"),
        ({"STREAMSCHED_EMIT_URL": "", "STREAMSCHED_URL": ""}, "http://127.0.0.1:1"),
    ],
)
def test_variables_win(nowhere: Path, environ: dict[str, str], url: str) -> None:
    runs_in(nowhere, "http://127.0.0.1:1")

    found = find_destination({**environ, "STREAMSCHED_SPOOL": "/s"})

    assert found == Destination(url, Path("/s"))


def test_a_data_dir_is_looked_into_and_nothing_else(nowhere: Path) -> None:
    runs_in(nowhere, "http://127.0.0.1:1")
    (nowhere / "else").mkdir()
    elsewhere = {"STREAMSCHED_DATA_DIR": str(nowhere / "else")}

    assert find_destination(elsewhere) is None
    (nowhere / "else" / "dev.json").write_text('{"url": "http://127.0.0.1:3"}')
    assert find_destination(elsewhere) == Destination("http://127.0.0.1:3", nowhere / "else" / "spool" / "outside-runs")


@pytest.mark.parametrize("content", ["", "[]", "null", '{"url"', "{}"])
def test_a_damaged_note_is_none(nowhere: Path, content: str) -> None:
    (runs_in(nowhere, "x") / "dev.json").write_text(content)

    assert find_destination() is None
    assert find_url() == DEFAULT_URL


def test_an_emitter_without_a_url_says_what_to_do(nowhere: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"STREAMSCHED_EMIT_URL.*streamsched dev"):
        Emitter(source="test")


def test_what_an_emitter_cannot_send_to_a_dev_that_died_waits_in_its_folder(nowhere: Path) -> None:
    state = runs_in(nowhere, "http://127.0.0.1:9")

    with Emitter(source="test") as emitter:
        assert emitter.emit(custom("e")).spooled == 1

    assert len(list((state / "spool" / "outside-runs").glob("*.events"))) == 1


def test_a_name_is_in_the_namespace_of_the_run(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert namespace() == "default"
    assert str(PartitionedFileSet("sales", nowhere).dataset) == "default.sales"
    monkeypatch.setenv("STREAMSCHED_NAMESPACE", "prod")

    assert str(partitions_added("sales", ["day=1"]).fact.dataset) == "prod.sales"  # type: ignore[union-attr]
    assert str(stream_size("clicks", 1).fact.stream) == "prod.clicks"  # type: ignore[union-attr]
    assert str(custom("approved").fact.name) == "prod.approved"  # type: ignore[union-attr]
    assert str(PartitionedFileSet("sales", nowhere).dataset) == "prod.sales"
    assert str(PartitionedFileSet("test.sales", nowhere).dataset) == "test.sales"
    assert str(partitions_added("test.sales", ["day=1"]).fact.dataset) == "test.sales"  # type: ignore[union-attr]


def test_each_key_without_listeners_is_warned_of_once(nowhere: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "streamsched.emit"):
        for _ in range(3):
            warn_no_listeners(["partition:default.once-only"])

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "no schedule listens to partition:default.once-only" in record.getMessage()


def test_in_a_run_there_is_no_warning(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Outputs of a run often have no listener."""
    monkeypatch.setenv("STREAMSCHED_RUN_ID", "r")
    with caplog.at_level(logging.INFO, "streamsched.emit"):
        warn_no_listeners(["partition:default.of-a-run"])

    assert [record.levelno for record in caplog.records] == [logging.INFO]


@pytest.mark.parametrize(
    "wrong",
    [
        "day=1",
        b"day=1",
        bytearray(b"day=1"),
        {"day": "1"},
        Partition("day=1"),
        7,
        None,
        [{"day": "1"}],
        [("day", "1")],
        [b"day=1"],
        [7],
        [None],
        [["day=1"]],
        [""],
        ["day=1", ""],
    ],
)
def test_what_is_no_list_of_keys_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidError) as caught:
        partitions_added("flights", wrong)  # type: ignore[arg-type]

    assert caught.value.path.startswith("$.partitions")


def test_one_text_shows_how_to_write_it() -> None:
    with pytest.raises(InvalidError, match=r"\$\.partitions: must be a list of keys but is one, .*write \['day=1'\]"):
        partitions_added("flights", "day=1")


def test_any_iterable_of_keys_is_a_list_of_keys() -> None:
    for keys in (["a=1", "a=2"], ("a=1", "a=2"), (f"a={n}" for n in (1, 2)), dict.fromkeys(["a=1", "a=2"]).keys()):
        assert [p.key for p in partitions_added("flights", keys).fact.partitions] == ["a=1", "a=2"]  # type: ignore[union-attr]


@pytest.mark.parametrize("keys", ["day=1", b"day=1"])
def test_a_file_set_takes_no_letters_for_keys_or_columns(nowhere: Path, keys: str) -> None:
    flights = PartitionedFileSet("flights", nowhere / "flights")
    with pytest.raises(InvalidError, match=r"\$\.keys: must be a list"):
        flights.read_partitions(None, keys)
    with pytest.raises(InvalidError, match=r"\$\.partition_by: must be a list"):
        flights.write(None, partition_by=keys)  # type: ignore[arg-type]
    assert not (nowhere / "flights").exists()


def test_the_names_of_the_package_are_imported_at_first_use() -> None:
    """Neither a definition nor the command line imports what only jobs need."""
    code = (
        "import sys, streamsched\n"
        "assert not any(name.startswith('streamsched.') for name in sys.modules)\n"
        "from streamsched import App\n"
        "assert 'streamsched.spark.pfs' not in sys.modules and 'streamsched.emit' not in sys.modules\n"
        "from streamsched import Emitter, PartitionedFileSet, current_run, partitions_added\n"
        "assert not {'pyspark', 'pyarrow', 'httpx', 'asyncpg'} & sys.modules.keys()\n"
        "assert streamsched.PartitionedFileSet is PartitionedFileSet\n"
        "assert all(hasattr(streamsched, name) for name in streamsched.__all__)\n"
        "try: streamsched.nothing\n"
        "except AttributeError as exc: assert 'nothing' in str(exc)\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
