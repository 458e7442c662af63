"""Loading of apps from Python, YAML and JSON, and the errors of invalid files."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.codec.schedules.schedule import app_to_json
from streamsched.define.loading import load_app
from streamsched.define.yaml import YamlError, read_yaml
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.schedules.schedule import SparkJob

PIPELINE = """
from streamsched import App, partitions
app = App("flights")
join = app.spark("join", main="jobs/join.py")
app.schedule("weekly", join, when=partitions("flights", 7))
"""

PIPELINE_YAML = """
application: flights
programs:
  join: {type: spark, main: jobs/join.py, arguments: [--days, "7"]}
  tidy: {type: bash, command: rm -rf scratch}
schedules:
  weekly:
    program: join
    trigger:
      type: AND
      triggers:
        - {type: PARTITION, dataset: flights, numPartitions: 7}
        - {type: PARTITION, dataset: weather, numPartitions: 7}
    constraints:
      - {type: TIME_RANGE, startTime: 22:00, endTime: 06:00, timeZone: Europe/Berlin}
    properties: {from: 2013-01-01, loud: "no"}
  cleanup:
    program: tidy
    enabled: false
    trigger: {type: PROGRAM_STATUS, programId: join, programStatuses: [COMPLETED]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _main(target: str) -> str:
    executable = load_app(target).programs[0].executable
    assert isinstance(executable, SparkJob)
    return executable.main


@pytest.mark.parametrize("target", ["pipe.py", "./pipe.py", "pipe.py:app", "pipe", "pipe:app"])
def test_python_is_loaded_by_file_and_by_module(folder: Path, target: str) -> None:
    Path("pipe.py").write_text(PIPELINE)
    assert _main(target) == str(folder / "jobs" / "join.py")


def test_main_files_are_relative_to_the_folder_of_the_module(folder: Path) -> None:
    (folder / "town").mkdir()
    (folder / "town" / "pipes.py").write_text(PIPELINE)
    assert _main("town.pipes:app") == str(folder / "town" / "jobs" / "join.py")


def test_a_file_can_import_from_its_folder_and_the_import_path_is_restored(folder: Path) -> None:
    Path("names.py").write_text("NAME = 'flights'\n")
    Path("pipe.py").write_text(PIPELINE.replace('App("flights")', "App(__import__('names').NAME)"))
    before = list(sys.path)
    assert str(load_app("pipe.py").ref) == "default.flights"
    assert sys.path == before


def test_the_same_app_under_two_names_is_one_app(folder: Path) -> None:
    Path("pipe.py").write_text(PIPELINE + "other = app\n")
    assert str(load_app("pipe.py").ref) == "default.flights"


def test_yaml_and_json_define_the_same_app(folder: Path) -> None:
    Path("pipe.yaml").write_text(PIPELINE_YAML)
    app = load_app("pipe.yaml")
    Path("pipe.json").write_text(json.dumps(app_to_json(app)))
    assert load_app("pipe.json") == app
    assert app.enabled == {"weekly"}
    weekly = app.schedules[0]
    assert str(weekly.trigger) == "7 new partitions of default.flights and 7 new partitions of default.weather"
    assert isinstance(weekly.constraints[0], TimeWindow)
    assert weekly.properties == {"from": "2013-01-01", "loud": "no"}
    assert app.programs[0].executable == SparkJob(str(folder / "jobs" / "join.py"), ("--days", "7"))


@pytest.mark.parametrize("target", ["gone.py", "gone.py:app", "folder/gone", "gone.yaml", "gone.json"])
def test_a_missing_file_is_named(folder: Path, target: str) -> None:
    with pytest.raises(NotFoundError, match=re.escape(f"file '{target.partition(':')[0]}' was not found")):
        load_app(target)


@pytest.mark.parametrize("target", ["gone_module", "town.gone_module"])
def test_a_missing_module_is_named(folder: Path, target: str) -> None:
    (folder / "town").mkdir()
    (folder / "town" / "__init__.py").touch()
    with pytest.raises(NotFoundError, match=f"module '{target}' was not found"):
        load_app(target)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("x = 1\n", "pipe.py", "pipe.py: defines no App at its top level, as in: app = App('flights')"),
        (
            PIPELINE + "second = App('b')\n",
            "pipe.py",
            "pipe.py: defines several Apps, choose one: pipe.py:app, pipe.py:second",
        ),
        (PIPELINE, "pipe.py:nope", "pipe.py: 'nope' does not exist"),
        (PIPELINE, "pipe.py:join", "pipe.py: 'join' is a ProgramRef, not an App"),
        ("def broken(:\n", "pipe.py", "pipe.py:1: is not valid Python: invalid syntax"),
        ("\n\nx = 1 / 0\n", "pipe.py", "pipe.py:3: failed when it was executed: ZeroDivisionError: division by zero"),
        (
            "import not_installed_here\n",
            "pipe",
            "pipe:1: failed when it was executed: ModuleNotFoundError: No module named 'not_installed_here'",
        ),
        (
            PIPELINE.replace("7)", "0)"),
            "pipe.py",
            "pipe.py:5 $.schedules.weekly.when.count: must be at least 1 but is 0, in partitions('flights', 0)",
        ),
        (
            PIPELINE.replace("when=", "when=__import__('streamsched').program('gone') | "),
            "pipe.py",
            "pipe.py:5 $.schedules[0].trigger: schedule 'weekly' waits for unknown program 'gone' (known: join)",
        ),
        (
            PIPELINE
            + "\napp.task('a', join, job_id='{n}', depends_on='b')"
            + "\napp.task('b', join, job_id='{n}', depends_on='a')\n",
            "pipe.py",
            "pipe.py:7 $.tasks.a.depends_on: is a circle: a needs b needs a",
        ),
        (
            PIPELINE + "for name in ['a']:\n    app.task(name, join, job_id='{n}', depends_on='b')\n",
            "pipe.py",
            "pipe.py $.tasks.a.depends_on.task[0]: there is no task 'b'",
        ),
    ],
)
def test_an_error_in_python_has_its_line(folder: Path, text: str, target: str, message: str) -> None:
    Path("pipe.py").write_text(text)
    with pytest.raises(InvalidError) as refused:
        load_app(target)
    assert str(refused.value).replace(f"{folder}/", "") == message


@pytest.mark.parametrize("name", ["app", "combinators", "pipe"])
@pytest.mark.parametrize("suffix", [".py", ""])
def test_an_error_has_the_line_of_the_users_file_whatever_its_name_is(folder: Path, name: str, suffix: str) -> None:
    """A file `app.py` had a line of the module of that name that builds the definition."""
    text = PIPELINE.replace('partitions("flights", 7)', 'partitions("flights").per("hour", "day").rolled_up_to("day")')
    Path(f"{name}.py").write_text(text)

    with pytest.raises(InvalidError, match=rf"^{name}{suffix}:5 \$\.schedules\.weekly\.when\.by: "):
        load_app(f"{name}{suffix}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("numPartitions: 7", "numPartitions: 0"),
            "$.schedules.weekly.trigger.triggers[0].numPartitions: must be at least",
        ),
        (("numPartitions: 7", "count: 7"), "$.schedules.weekly.trigger.triggers[0].numPartitions: is missing"),
        (("type: AND", "type: NOR"), "$.schedules.weekly.trigger.type: unknown trigger type 'NOR'"),
        (("Europe/Berlin", "Europe/Bonn"), "$.schedules.weekly.constraints[0].timeZone: 'Europe/Bonn' is no IANA"),
        (
            ("program: tidy", "program: gone"),
            "$.schedules[1].program: schedule 'cleanup' starts unknown program 'gone'",
        ),
        (
            ("programId: join", "programId: gone"),
            "$.schedules[1].trigger: schedule 'cleanup' waits for unknown program",
        ),
        (
            ("type: bash", "type: perl"),
            "$.programs.tidy.type: unknown program type 'perl' (known: bash, enqueue, http, publish, python, spark)",
        ),
        (("  join: {", "  join: {name: j, "), "$.programs.join.name: is given already by the name of the field"),
        (("application: flights", "app: flights"), "$.application: is missing"),
        (("enabled: false", "enabled: no"), "$.schedules.cleanup.enabled: must be true or false but is 'no'"),
        (("weekly:", "weekly: {"), "is not valid YAML: while parsing a flow mapping"),
        (("  tidy:", "  join:"), "is not valid YAML: duplicate name 'join'"),
    ],
)
def test_an_error_in_yaml_has_its_file_and_path(folder: Path, change: tuple[str, str], message: str) -> None:
    Path("pipe.yml").write_text(PIPELINE_YAML.replace(*change, 1))
    with pytest.raises(InvalidError) as refused:
        load_app("pipe.yml")
    assert re.sub(r"^pipe\.yml:? ", "", str(refused.value)).startswith(message)


def test_invalid_json_has_its_position(folder: Path) -> None:
    Path("pipe.json").write_text('{"application": }')
    with pytest.raises(InvalidError, match=r"^pipe\.json: is not valid JSON: Expecting value: line 1 column 17"):
        load_app("pipe.json")


@pytest.mark.parametrize("text", ["[]", "", "7", "- a"])
def test_a_file_without_an_object_is_refused(folder: Path, text: str) -> None:
    Path("pipe.yaml").write_text(text)
    with pytest.raises(InvalidError, match=r"^pipe\.yaml: must be an object but is"):
        load_app("pipe.yaml")


def test_yaml_scalars_follow_the_core_schema() -> None:
    assert read_yaml(b"{a: 22:00, b: no, c: 2013-01-08, d: 7, e: 1.5, f: true, g: ~, h: , i: 0o7, j: 1_000}") == {
        "a": "22:00",
        "b": "no",
        "c": "2013-01-08",
        "d": 7,
        "e": 1.5,
        "f": True,
        "g": None,
        "h": None,
        "i": "0o7",
        "j": "1_000",
    }


@pytest.mark.parametrize(
    "raw", [b"a: 1\na: 2", b"1: 2", b"a: 1\n---\nb: 2", b"!!python/object:os.system {}", b"\xff\x00"]
)
def test_invalid_yaml_is_refused(raw: bytes) -> None:
    with pytest.raises(YamlError):
        read_yaml(raw)


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"app.{ending}"
    path.write_text("[" * 20_000 + "]" * 20_000)

    with pytest.raises(InvalidError, match="nested too deeply"):
        load_app(str(path))


def test_a_file_is_compiled_each_time_and_nothing_is_left_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for number in (7, 8):  # of the same size, within the same second
        (folder / "app.py").write_text(PIPELINE.replace("7", str(number)))
        os.utime(folder / "app.py", (1_700_000_000, 1_700_000_000))
        trigger = load_app("app.py").schedules[0].trigger
        assert f"{number} new partitions" in str(trigger)
    assert [path.name for path in folder.iterdir()] == ["app.py"]


def test_a_file_that_is_no_python_is_refused(folder: Path) -> None:
    (folder / "app.txt").write_text(PIPELINE)
    with pytest.raises(InvalidError, match="is not a file of Python, YAML or JSON"):
        load_app("./app.txt")


@pytest.mark.parametrize(("name", "text"), [("app.py", PIPELINE), ("app.yaml", PIPELINE_YAML)])
def test_an_app_that_names_no_namespace_is_of_the_given_one(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    staging, usual = (load_app(str(tmp_path / name), namespace=each) for each in ("staging", ""))

    assert (str(staging.ref), str(usual.ref)) == ("staging.flights", "default.flights")
    assert {each.ref.namespace for each in (*staging.programs, *staging.schedules)} == {"staging"}
    assert "staging.flights" in str(staging.schedules[0].trigger)
    assert app_to_json(usual) == json.loads(json.dumps(app_to_json(staging)).replace("staging", "default"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.py", PIPELINE.replace('App("flights")', 'App("flights", namespace="prod")')),
        ("app.json", '{"namespace": "prod", "application": "flights", "programs": {}}'),
    ],
)
def test_an_app_of_another_namespace_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert load_app(str(tmp_path / name), namespace="prod").ref.namespace == "prod"
    with pytest.raises(InvalidError, match=r"\$\.namespace: is 'prod', so it is not deployed in 'staging'"):
        load_app(str(tmp_path / name), namespace="staging")
    with pytest.raises(InvalidError, match="namespace name 'a b'"):
        load_app(str(tmp_path / name), namespace="a b")
