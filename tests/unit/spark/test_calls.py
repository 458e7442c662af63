"""Calls of Python code: functions by name, and `main(ns)` with `build_arg_parser` as plug-ins of Stolos have it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.process_job import PythonJob, SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.spark.command import RunEnvironment, command

MODELS = """
import argparse, os

def train(date, client, job_id, size="small"):
    print(f"train {date} {client} {job_id} {size} {os.environ.get('LEVEL')}")

def everything(**arguments):
    print(sorted(arguments))

def needs(nothing):
    pass
"""
PLUGIN = """
import argparse

def build_arg_parser():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-a", "--app_name", required=True)
    parser.add_argument("--level", type=int, default=1)
    return parser

def main(ns):
    print(ns.app_name, ns.job_id, ns.level, ns.client)
"""


def _run(job: PythonJob, folder: Path, arguments: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    given = {"date": "20140101", "client": "a b", "job_id": "20140101_a b", "task": "model"}
    given = given if arguments is None else arguments
    run_file = folder / "run.json"
    run_file.write_text(json.dumps({"run": "r", "program": "default.shop.model", "arguments": given}))
    site = RunEnvironment(data_dir=folder, spark_master="local[1]", emit_url="", environ=dict(os.environ))
    program = Program(ProgramRef("default", "shop", "model"), job)
    made = command(Assignment("j.r1", 1, program, given), site, run_file)
    return subprocess.run(
        made.argv, env=dict(made.env), capture_output=True, text=True, timeout=60, check=False, cwd=folder
    )


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "models.py").write_text(MODELS)
    (folder / "xyz_plugin.py").write_text(PLUGIN)
    (folder / "call.py").write_text("def f(): print('mine')")  # of the name of a module of ours
    kind = folder / "kinds-1.dist-info"
    kind.mkdir()
    (kind / "METADATA").write_text("Metadata-Version: 2.1\nName: kinds\nVersion: 1\n")
    (kind / "entry_points.txt").write_text("[streamsched.task_kinds]\nmy-kind = xyz_plugin\n")
    return folder


@pytest.mark.parametrize(
    ("job", "printed"),
    [
        (PythonJob("models:train", env={"LEVEL": "9"}), "train 20140101 a b 20140101_a b small 9\n"),
        (PythonJob("models:everything"), "['client', 'date', 'job_id', 'task']\n"),
        (PythonJob("call:f"), "mine\n"),
        (PythonJob("xyz_plugin", ("--level", "{date}")), "model 20140101_a b 20140101 a b\n"),
        (PythonJob("my-kind"), "model 20140101_a b 1 a b\n"),
    ],
)
def test_what_is_called(job: PythonJob, printed: str, code: Path, tmp_path: Path) -> None:
    done = _run(PythonJob(job.target, job.arguments, str(code), job.env), tmp_path)
    assert (done.returncode, done.stdout) == (0, printed), done


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (PythonJob("models:needs"), "parameter 'nothing' has no argument; the run has: client, date, job_id, task"),
        (PythonJob("models:gone"), "has no function 'gone'"),
        (PythonJob("nowhere:f"), "No module named 'nowhere'"),
        (PythonJob("nowhere"), "there is no entry point 'nowhere' of group streamsched.task_kinds"),
        (PythonJob("models"), "has no function main(ns)"),
        (PythonJob("xyz_plugin", ("--deep",)), "unrecognized arguments: --deep"),
    ],
)
def test_what_cannot_be_called_fails_with_the_reason(job: PythonJob, why: str, code: Path, tmp_path: Path) -> None:
    done = _run(PythonJob(job.target, job.arguments, str(code)), tmp_path)
    assert done.returncode != 0
    assert why in done.stderr


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: PythonJob("a b:f"), "$.target"),
        (lambda: PythonJob("a:f", ("--x",)), "$.arguments"),
        (lambda: PythonJob("a:f", env={"a=b": ""}), "$.env"),
        (lambda: PythonJob("a:f", env={"STREAMSCHED_RUN_FILE": ""}), "$.env"),
        (lambda: PythonJob("a:f", env={"A": "\0"}), "$.env.A"),
        (lambda: SparkJob("main.py", module="m"), "$.pymodule"),
        (lambda: SparkJob("", module="m/x"), "$.pymodule"),
        (lambda: SparkJob("main.py", env_from_os=("HOME",)), "$.env_from_os"),
        (lambda: SparkJob("main.py", uris=("a,b",)), "$.uris[0]"),
    ],
)
def test_definitions_that_cannot_run_are_refused(make, path: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        make()
    assert caught.value.path == path


def test_a_spark_module_is_submitted_with_its_files_and_environment(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    java.chmod(0o755)
    files = (str(tmp_path / "x.zip"), str(tmp_path / "words.txt"))
    for each in files:
        Path(each).touch()
    environ = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": "/bin", "TOKEN": "secret", "PYTHONPATH": "/lib"}
    site = RunEnvironment(data_dir=tmp_path, spark_master="local[1]", emit_url="", environ=environ)
    job = SparkJob("", ("--read_fp", "{date}"), None, {}, "tasks.flow", "/code", {"A": "b"}, ("TOKEN",), files)
    made = command(
        Assignment("j.r1", 1, Program(ProgramRef("default", "s", "m"), job), {"date": "1"}), site, Path("/run.json")
    )
    text = " ".join(made.argv)
    assert "spark.executorEnv.A=b" in text
    assert f"--py-files {files[0]} --files {files[1]}" in text
    assert text.endswith("spark_call.py tasks.flow --read_fp 1")
    assert "secret" not in text
    assert (made.env["PYTHONPATH"], made.env["A"]) == (f"/code{os.pathsep}/lib", "b")
    assert made.env["STREAMSCHED_EXECUTOR_ENV"] == "TOKEN"


def test_the_interpreter_is_that_of_the_runner(code: Path, tmp_path: Path) -> None:
    (code / "who.py").write_text("import sys\ndef f(): print(sys.executable)")
    assert _run(PythonJob("who:f", (), str(code)), tmp_path).stdout.strip() == sys.executable
