"""The `main` of PySpark modules on real Spark, by each form it may have, with the options of Stolos."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.spark.command import RunEnvironment, command

pytestmark = pytest.mark.spark

WHOLE = """
from words import shout

def main(textFile, ns, client, **rest):
    found = textFile.map(shout).map(lambda line: f"{client} {line} {sorted(rest)}")
    found.saveAsTextFile(ns.write_fp)
"""
EACH = """
import argparse, os
from words import shout

def build_arg_parser():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--factor", type=int, default=1)
    return parser

def main(line, ns, date, client):
    return f"{date} {client} {shout(line['word'])} {line['n'] * ns.factor} {os.environ['LEVEL']} {os.environ['TOKEN']}"
"""
PLAIN = """
def main(line):
    return line
"""
CONTEXT = """
def main(sc, ns, date):
    words = sc.parallelize([date, ns.job_id, ns.app_name, sc.getConf().get("spark.locality.wait")])
    words.coalesce(1).saveAsTextFile(ns.write_fp)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("whole", WHOLE), ("each", EACH), ("plain", PLAIN), ("context", CONTEXT)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "words.py").write_text("def shout(text): return text.upper()\n")
    input_ = tmp_path / "in_20140101"
    input_.mkdir()
    lines = [{"n": n, "word": f"é{n}"} for n in range(100)]
    (input_ / "part-0").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return tmp_path


def run(folder: Path, module: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Executes the module as a runner does, for job id 20140101_client1."""
    given = {"date": "20140101", "client": "client1", "job_id": "20140101_client1", "task": "words"}
    run_file = folder / "run.json"
    run_file.write_text(json.dumps({"run": "r", "program": "default.shop.words", "arguments": given}))
    environ = {**os.environ, "TOKEN": "secret"}
    site = RunEnvironment(data_dir=folder, spark_master="local[2]", emit_url="", environ=environ)
    job = SparkJob("", options, module=module, folder=str(folder), env={"LEVEL": "7"}, env_from_os=("TOKEN",), conf={})
    made = command(Assignment("j.r1", 1, Program(ProgramRef("default", "shop", "words"), job), given), site, run_file)
    assert made.event_log is not None
    made.event_log.mkdir(parents=True)
    return subprocess.run(
        made.argv, env=dict(made.env), capture_output=True, text=True, timeout=150, check=False, cwd=folder
    )


def written(folder: Path, name: str) -> list[list[str]]:
    """The lines of each part that Spark wrote."""
    assert (folder / name / "_SUCCESS").exists()
    return [path.read_text().splitlines() for path in sorted((folder / name).glob("part-*"))]


def test_main_of_lines_gets_each_line_and_its_results_are_written(folder: Path) -> None:
    done = run(
        *(folder, "each", "--read_fp", f"{folder}/in_{{date}}", "--write_fp", f"{folder}/out_{{date}}_{{client}}"),
        *("--mapjson", "--minPartitions", "3", "--factor", "10"),
    )
    assert done.returncode == 0, done.stderr
    parts = written(folder, "out_20140101_client1")

    assert len(parts) >= 3
    found = [line for part in parts for line in part]
    assert found == [f"20140101 client1 É{n} {n * 10} 7 secret" for n in range(100)]


@pytest.mark.nightly
def test_main_of_a_text_file_gets_all_lines_and_the_parts_of_the_job_id(folder: Path) -> None:
    done = run(folder, "whole", "--read_fp", f"{folder}/in_{{date}}", "--write_fp", f"{folder}/whole")
    assert done.returncode == 0, done.stderr
    found = [line for part in written(folder, "whole") for line in part]

    assert len(found) == 100
    assert found[0].startswith('client1 {"N": 0, "WORD": "')
    assert found[0].endswith("} ['date']")


@pytest.mark.nightly
def test_main_with_only_a_line_gets_a_sample(folder: Path) -> None:
    done = run(
        *(folder, "plain", "--read_fp", f"{folder}/in_{{date}}", "--write_fp", f"{folder}/sample", "--sample", "0.5")
    )
    assert done.returncode == 0, done.stderr
    assert 25 < sum(map(len, written(folder, "sample"))) < 75


def test_main_with_a_context_gets_the_configuration_of_its_options(folder: Path) -> None:
    options = ("--write_fp", f"{folder}/context", "--spark_conf", "spark.locality.wait=7s")
    done = run(folder, "context", *options)
    assert done.returncode == 0, done.stderr
    assert written(folder, "context") == [["20140101", "20140101_client1", "words", "7s"]]


@pytest.mark.parametrize("missing", ["--read_fp", "--write_fp"])
def test_a_missing_option_is_named_before_spark_starts(folder: Path, missing: str) -> None:
    given = {"--read_fp": f"{folder}/in_{{date}}", "--write_fp": f"{folder}/none"}
    del given[missing]
    done = run(folder, "plain", *(each for pair in given.items() for each in pair))

    assert done.returncode != 0
    assert f"{missing} is missing, and main has no parameter 'sc'" in done.stdout  # spark-submit joins both streams
    assert "SparkContext" not in done.stdout + done.stderr
