"""`make demo` as a newcomer sees it, without a terminal: one week, from the first partition to the picture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "flights" / "demo.py"


def shown(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMO), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environ})


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_the_demo_ends_with_its_answer(java: None, tmp_path: Path) -> None:
    reported = shown("--weeks", "1", "--folder", str(tmp_path))

    assert reported.returncode == 0, reported.stdout + reported.stderr
    assert "weekly-join.1.1.r1 completed" in reported.stdout
    assert "weekly-report.1.1.r1 completed" in reported.stdout
    assert "/ui/runs/default.flights.weekly-join.1.1.r1" in reported.stdout.splitlines()[-1]
    (table,) = tmp_path.glob("data-*/report.csv")
    rows = [line.split(",") for line in table.read_text().splitlines()]
    assert rows[0] == ["measure", "band", "flights", "cancelled", "mean_delay", "cancelled_percent"]
    assert sum(int(row[2]) for row in rows if row[0] == "wind") == 6530
    assert table.with_name("report.png").stat().st_size > 10_000


def test_a_machine_without_java_is_reported_at_once(tmp_path: Path) -> None:
    reported = shown("--folder", str(tmp_path / "state"), PATH="/nowhere", JAVA_HOME="")

    assert reported.returncode == 1
    assert "Spark needs Java 17 or newer" in reported.stdout
    assert not (tmp_path / "state").exists()
