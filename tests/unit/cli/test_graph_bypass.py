"""`graph run --bypass`: a task's program here, with the arguments of a node, without a server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
from streamsched import App

app = App("shop")
app.bash("say", "echo {task} {client} {size}; exit {code}", fill=True, defaults={"size": "small", "code": "0"})
app.python("plug", "plug", arguments=["--level", "1"])
app.http("tell", "http://localhost/{date}")
app.task("clean", "say", job_id="{date}_{client}", components={"date": "date"}, properties={"size": "big"})
app.bash("when", "echo {yesterday}", fill=True)
days = {"yesterday": {"of": "date", "back": "1d", "format": "%d.%m."}}
app.task("day", "when", job_id="{date}", components={"date": "date"}, arguments=days)
app.task("model", "plug", job_id="{date}_{client}", depends_on="clean")
app.task("told", "tell", job_id="{date}")
app.bash("nothing", "true")
app.task("empty", "nothing", job_id="{date}")
"""
PLUG = """
import argparse
build_arg_parser = argparse.ArgumentParser(add_help=False)
build_arg_parser.add_argument("--level")
def main(ns):
    print("plug", ns.job_id, ns.level)
"""


def _graph_run(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(APP)
    (folder / "plug.py").write_text(PLUG)
    return subprocess.run(
        (sys.executable, "-c", "from streamsched.cli.main import main; main()", "graph", "run", *given),
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("given", "code", "printed"),
    [
        (("clean", "20140101_a b"), 0, "clean a b big\n"),
        (("shop.clean", "20140101_a", "--arg", "code=4", "--arg", "size=x y"), 4, "clean a x y\n"),
        (("day", "20140301"), 0, "28.02.\n"),
        (("model", "20140101_a"), 0, "plug 20140101_a 1\n"),
        (("model", "20140101_a", "--", "--level", "7"), 0, "plug 20140101_a 7\n"),
        (("clean", "20140101_a", "--bash", "echo 123"), 0, "123\n"),
        (("clean", "20140101_a;ls", "--bash", "echo {client} '{size}'"), 0, "a;ls big\n"),
        (("day", "20140301", "--", "x  y", "{date}", "$HOME"), 0, "28.02. x  y 20140301 $HOME\n"),
        (("empty", "1", "--", "echo", "123"), 0, "123\n"),
    ],
)
def test_its_output_and_exit_code_are_those_of_the_program(
    tmp_path: Path, given: tuple[str, ...], code: int, printed: str
) -> None:
    name, *rest = given
    done = _graph_run(tmp_path, name, "--bypass", "--file", "app.py", *rest)
    assert (done.returncode, done.stdout) == (code, printed), done.stderr
    assert [path for path in (tmp_path / ".streamsched" / "bypass").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("gone", "1"), "TASK: 'gone' is no task of app.py (known: clean, day, model, told, empty)"),
        (("clean", "2014_a"), "JOB_ID: '2014_a' does not fit the template {date}_{client}"),
        (("told", "1"), "is no process: a launcher sends it"),
        (
            ("model", "20140101_a", "--bash", "x"),
            "--bash: is for shell commands, and program default.shop.plug is none",
        ),
        (("clean", "20140101_a", "--bash", "echo {nothing}"), "--bash"),
    ],
)
def test_what_cannot_run_here_is_refused(tmp_path: Path, given: tuple[str, ...], why: str) -> None:
    name, *rest = given
    done = _graph_run(tmp_path, name, "--bypass", "--file", "app.py", *rest)
    assert done.returncode != 0
    assert why in " ".join(done.stderr.split()), done.stderr


def test_options_are_for_a_bypass(tmp_path: Path) -> None:
    done = _graph_run(tmp_path, "clean", "20140101_a", "--file", "app.py")
    assert "--bypass: is missing" in done.stderr
