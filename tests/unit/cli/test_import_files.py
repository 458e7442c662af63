"""`streamsched import … --to`: files and folders, what exists, what cannot be written; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streamsched.cli.main import make_app
from streamsched.define.loading import read_data

DAG = "with DAG({name!r}, schedule='@daily'):\n    BashOperator(task_id='a', bash_command='true')\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("dag.py").write_text(DAG.format(name="one"))
    Path("two.py").write_text(DAG.format(name="one") + DAG.format(name="two"))
    return tmp_path


def typed(*given: str) -> Result:
    found = CliRunner().invoke(make_app(), ["import", "airflow", *given])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


@pytest.mark.parametrize(
    ("to", "written"),
    [
        ((), ["one.yaml"]),
        (("--to", "apps/"), ["apps/one.yaml"]),
        (("--to", "apps"), ["apps/one.yaml"]),
        (("--to", "there"), ["there/one.yaml"]),
        (("--to", "there/"), ["there/one.yaml"]),
        (("--to", "deep/er/"), ["deep/er/one.yaml"]),
        (("--to", "mine.yaml"), ["mine.yaml"]),
        (("--to", "new/mine.yml"), ["new/mine.yml"]),
        (("--to", "folder.yaml"), ["folder.yaml/one.yaml"]),
    ],
)
def test_where_a_file_is_written(folder: Path, to: tuple[str, ...], written: list[str]) -> None:
    Path("there").mkdir()
    Path("folder.yaml").mkdir()

    assert typed("dag.py", *to).exit_code == 0
    assert [str(each) for each in Path().rglob("*.y*ml") if each.is_file()] == written
    again = typed("dag.py", *to)
    assert (again.exit_code, "exists; `--force` replaces it" in again.output.replace("\n", " ")) == (2, True)
    assert typed("dag.py", *to, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("dag.py", "is a file"),
        ("dag.py/", "is a file"),
        ("dag.py/x/", "cannot be"),
        ("dag.py/x.yaml", "cannot be written"),
        ("/proc/nope/", "cannot be written"),
        ("x.json", "ends in .json"),
        ("a" * 300 + "/", "cannot be"),
        ("a\0b/", "cannot be"),
        ("two.yaml", "is one file, and there are 2 apps"),
    ],
)
def test_what_cannot_be_written_is_one_line(folder: Path, to: str, said: str) -> None:
    found = typed("two.py" if to == "two.yaml" else "dag.py", "--to", to)

    assert found.exit_code == 2
    assert said in " ".join(found.output.split())
    assert not list(Path().rglob("*.yaml"))


def test_several_apps_are_written_all_or_none(folder: Path) -> None:
    Path("apps").mkdir()
    Path("apps/two.yaml").write_text("mine")

    assert typed("two.py", "--to", "apps/").exit_code == 2
    assert [each.name for each in Path("apps").iterdir()] == ["two.yaml"]
    assert Path("apps/two.yaml").read_text() == "mine"
    assert typed("two.py", "--to", "apps/", "--force").exit_code == 0
    assert sorted(each.name for each in Path("apps").iterdir()) == ["one.yaml", "two.yaml"]


def test_strict_writes_nothing_and_exits_with_1_when_something_is_refused(folder: Path) -> None:
    Path("dag.py").write_text(DAG.format(name="one").replace("'@daily'", "'@daily', dagrun_timeout=1"))

    assert typed("dag.py", "--strict").exit_code == 1
    assert not Path("one.yaml").exists()
    assert typed("dag.py").exit_code == 0
    Path("dag.py").write_text(DAG.format(name="one"))
    assert typed("dag.py", "--strict", "--force").exit_code == 0


def test_the_table_is_printed_and_is_in_the_file(folder: Path) -> None:
    Path("dag.py").write_text(DAG.format(name="one").replace("'true'", "'true', sla=1, pool='\u2028x\ufffe: [\x85'"))
    found = typed("dag.py")
    text = Path("one.yaml").read_text()

    assert "refused: 2" in found.output
    assert "#   line 2   a.sla: `deadlines` of a schedule start a program" in text
    assert all(len(line) <= 80 for line in text.split("\n") if line.startswith("#"))
    assert read_data(Path("one.yaml"))["application"] == "one"


@pytest.mark.parametrize("name", ["../up", "a/b", "\u6570\u636e", "x" * 300, "..", "-", "a\nb: c", "\ufffe"])
def test_names_of_dags_stay_in_the_folder(folder: Path, name: str) -> None:
    Path("dag.py").write_text(DAG.format(name=name))

    assert typed("dag.py", "--to", "apps/").exit_code == 0
    [written] = Path("apps").iterdir()
    assert read_data(written)["application"] == written.stem
    assert sorted(each.name for each in folder.iterdir()) == ["apps", "dag.py", "two.py"]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("missing.py",), 3),
        (("there",), 2),
        (("dag.py", "--pool", "p"), 2),
        (("dag.py", "--pool", "p=0"), 2),
        (("dag.py", "--pool", "p=\u0663"), 2),
        (("dag.py", "--programs", "missing.yaml"), 3),
        (("dag.py", "--programs", "dag.py"), 2),
        (("dag.py", "--airflow", "1"), 2),
        (("x" * 5000,), 2),
    ],
)
def test_wrong_answers_are_refused(folder: Path, given: tuple[str, ...], code: int) -> None:
    Path("there").mkdir()

    assert typed(*given).exit_code == code


def test_cdap_says_what_is_a_placeholder_and_leaves_nothing_out(folder: Path) -> None:
    program = {"programName": "wf", "programType": "WORKFLOW"}
    known = {
        "application": "etl",
        "name": "daily",
        "program": program,
        "trigger": {"type": "TIME", "cronExpression": "0 2 * * *"},
    }
    strange = {**known, "name": "odd", "trigger": {"type": "MOON"}}
    Path("s.json").write_text(json.dumps([known, strange, known, 7]))
    found = CliRunner().invoke(make_app(), ["import", "cdap", "s.json", "--to", "apps/", "-o", "json"])
    notes = [(note["kind"], note["text"]) for note in json.loads(found.stdout)["notes"]]
    app = read_data(Path("apps/etl.yaml"))

    assert any(kind == "refused" and "program wf is a placeholder that fails. It needs" in text for kind, text in notes)
    assert list(app["programs"]) == ["wf", "odd", "daily"], "what is not understood, and what is listed twice, is there"
    assert list(app["schedules"]) == ["daily"]
    assert "not understood" in app["programs"]["odd"]["command"]
    assert list(read_data(Path("apps/unread.yaml"))["programs"]) == ["schedule"]
