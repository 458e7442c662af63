"""The examples of lakes and of many feeds, as their pages say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.acceptance.test_demo import shown
from tests.support.dev_process import DevProcess
from tests.support.services import need_java, need_module

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    process = DevProcess(tmp_path)
    process.start()
    try:
        yield process
    finally:
        process.close()


def python(dev: DevProcess, script: Path, *arguments: str, **environ: str) -> str:
    """A program that finds the installation of its folder."""
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=dev.folder,
        env=dev.environ(**environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.nightly
def test_a_growing_stream_is_compacted_and_no_row_is_lost(dev: DevProcess) -> None:
    need_java()
    data = dev.folder / "clicks"
    done = dev.run("deploy", str(EXAMPLES / "streaming" / "app.py"), STREAM_DATA=str(data), STREAM_EVERY="20KB")
    assert done.code == 0, done

    said = python(dev, EXAMPLES / "streaming" / "stream.py", "--data", str(data), "--batches", "5")

    landed = sum(int(line.split()[2]) for line in said.splitlines() if line.startswith("batch "))
    assert landed > 20_000, said
    runs = dev.until(lambda: _completed(dev, "clicks.compact"), within=400)
    log = dev.run("run", "logs", runs[0]).out
    assert "the stream has grown by" in log
    assert "compacted" in log
    dev.until(lambda: _completed(dev, "clicks.done"), within=100)

    import pyarrow.parquet as pq

    files = [*data.glob("compacted/upto=*/*.parquet"), *data.glob("raw/batch=*/*.parquet")]
    values = [value for file in files for value in pq.read_table(file, columns=["value"])["value"].to_pylist()]
    assert sorted(values) == list(range(len(values)))


@pytest.mark.nightly
def test_two_commits_to_an_iceberg_table_start_a_job_that_reads_both(dev: DevProcess) -> None:
    need_java()
    need_module("pyiceberg", "iceberg")
    data = dev.folder / "readings"
    catalog: dict[str, Any] = {
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{data}/catalog.db",
    }
    watch = ("watch", "iceberg", "weather.readings", "--catalog", "lake", "--dataset", "readings", "--once")
    done = dev.run("deploy", str(EXAMPLES / "iceberg" / "app.py"), ICEBERG_DATA=str(data))
    assert done.code == 0, done

    python(dev, EXAMPLES / "iceberg" / "land.py", "2026-01-01", "2026-01-02", ICEBERG_DATA=str(data))
    seen = dev.run(*watch, "--begin", "start", **catalog)
    assert seen.code == 0, seen
    assert [line.split(",")[0] for line in seen.out.splitlines() if "rows" in line] == [
        f"default.readings: day=2026-01-0{day}" for day in (1, 2)
    ]
    assert "nothing new" in dev.run(*watch, **catalog).out
    (run,) = dev.until(lambda: _completed(dev, "readings.mean"), within=200)

    lines = (data / "means" / f"{run}.csv").read_text().splitlines()
    assert lines == ["station,rows,celsius", "EWR,48,7.75", "JFK,48,5.75", "LGA,48,6.75"]
    assert f"run {run}: 144 rows of day=2026-01-01, day=2026-01-02" in dev.run("run", "logs", run).out


@pytest.mark.nightly
def test_a_thousand_feeds_start_by_priority_and_in_their_window(dev: DevProcess) -> None:
    feeds = EXAMPLES / "many_feeds"
    opens = datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(hours=6)
    night = f"{opens:%H:%M}-{opens + timedelta(hours=1):%H:%M}"
    done = dev.run("deploy", str(feeds / "app.py"), within=300, FEEDS="1000", AT_ONCE="1", NIGHT=night)
    assert done.code == 0, done

    # 40 feeds: one urgent, seven of bulk, which wait for the night, 32 normal ones
    assert "of 40 feeds" in python(dev, feeds / "land.py", "--feeds", "40", "--day", "2026-01-01")

    jobs = dev.until(lambda: found if len(found := _jobs(dev)) == 40 else None, within=200)
    assert len({each["schedule"] for each in jobs}) == 40
    waiting = dev.run("job", "why", next(each["id"] for each in jobs if each["schedule"].endswith("feed-0005"))).out
    assert f"{opens:%H:%M}" in waiting, waiting
    pools = dev.run("pool", "list", "-o", "json").json
    assert [each["name"] for each in pools] == ["loads"]


@pytest.mark.nightly
def test_the_demo_on_delta_tables(java: None, tmp_path: Path) -> None:
    need_module("deltalake", "delta")
    reported = shown("--lake", "delta", "--weeks", "1", "--folder", str(tmp_path), **_quiet())

    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert "weekly-report.1.1.r1 completed" in reported.stdout
    (table,) = tmp_path.glob("data-*/report.csv")
    rows = [line.split(",") for line in table.read_text().splitlines()]
    assert sum(int(row[2]) for row in rows if row[0] == "wind") == 6530  # as in files: tests/acceptance/test_demo.py
    assert (table.parent / "flights" / "_delta_log").is_dir()


def _quiet() -> dict[str, str]:
    return {"COLUMNS": "160", "HOME": os.environ.get("HOME", "/root")}


def _completed(dev: DevProcess, program: str) -> list[str]:
    runs = dev.run("run", "list", "--limit", "100", "-o", "json").json
    failed = [each for each in runs if each["state"] in ("FAILED", "LOST")]
    assert failed == [], dev.run("run", "logs", failed[0]["id"]).out
    return [each["id"] for each in runs if program in each["program"] and each["state"] == "COMPLETED"]


def _jobs(dev: DevProcess) -> list[dict[str, str]]:
    return dev.run("job", "list", "--limit", "100", "-o", "json").json
