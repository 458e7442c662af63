"""DAG files of Airflow: nothing is left out unsaid, and no file does harm."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.moving.draft import NoteKind
from streamsched.codec.moving.table import table_of
from streamsched.dialects.airflow.codec.dag_file import dags_from_source
from streamsched.domain.errors import DecodeError
from tests.support.airflow_imports import HEAD, parents, read

# Everything is said.

TASK_KEYWORDS = {
    "retries": ["3", "RETRIES", "None", "'x'"],
    "retry_delay": ["timedelta(minutes=1)", "30"],
    "retry_exponential_backoff": ["True"],
    "pool": ["'p'", "'q'", "POOL"],
    "pool_slots": ["1", "2"],
    "priority_weight": ["5"],
    "weight_rule": ["'absolute'"],
    "trigger_rule": ["'all_done'", "'one_failed'", "TriggerRule.NONE_SKIPPED", "'odd'", "f()"],
    "sla": ["timedelta(hours=1)"],
    "email": ["'a@b.c'"],
    "email_on_failure": ["True", "False"],
    "on_failure_callback": ["print", "None"],
    "depends_on_past": ["True", "False"],
    "execution_timeout": ["timedelta(hours=1)"],
    "env": ["{'A': '{{ ds }}'}", "{'A': f()}", "ENV"],
    "append_env": ["True"],
    "cwd": ["'/tmp'"],
    "queue": ["'default'", "'gpu'"],
    "params": ["{'a': 1}"],
    "start_date": ["datetime(2024, 1, 1)"],
    "owner": ["'me'"],
    "doc_md": ["'text'"],
    "do_xcom_push": ["False", "True"],
    "skip_on_exit_code": ["99", "[1, 2]", "None"],
    "unheard_of": ["1", "f(x)"],
    "outlets": ["[Asset('a')]"],
    "max_active_tis_per_dag": ["2"],
}
DAG_KEYWORDS = {
    "schedule": ["'@daily'", "None", "f()", "'0 0 * * *'"],
    "catchup": ["True", "False"],
    "max_active_runs": ["1", "f()"],
    "max_active_tasks": ["4"],
    "dagrun_timeout": ["timedelta(hours=1)"],
    "tags": ["['a']"],
    "end_date": ["datetime(2030, 1, 1)"],
    "default_view": ["'graph'"],
    "user_defined_macros": ["{'a': f}"],
    "sla_miss_callback": ["f"],
    "params": ["{'a': 1}"],
    "on_failure_callback": ["[f]"],
    "of_tomorrow": ["True"],
}
OPERATORS = [
    "BashOperator",
    "EmptyOperator",
    "PythonOperator",
    "SparkSubmitOperator",
    "FileSensor",
    "ShortCircuitOperator",
]


def _keywords(choices: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    pairs = [st.tuples(st.just(name), st.sampled_from(values)) for name, values in choices.items()]
    return st.lists(st.one_of(pairs), max_size=5, unique_by=lambda pair: pair[0]).map(dict)


def _written(keywords: dict[str, str], first: str = "") -> str:
    return ", ".join([*([first] if first else []), *(f"{name}={value}" for name, value in keywords.items())])


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Files with operators, decorators, groups, loops, expansions, conditions, and what cannot be read."""
    lines = [HEAD, "RETRIES = 2", "POOL = f()", "ENV = {'A': 'b'}", "COMMON = {'retries': 1, 'owner': 'me'}"]
    for number in range(draw(st.integers(1, 2))):
        defaults = draw(_keywords(TASK_KEYWORDS))
        own = draw(_keywords(DAG_KEYWORDS))
        if defaults:
            own["default_args"] = "{" + ", ".join(f"'{name}': {value}" for name, value in defaults.items()) + "}"
        given = draw(st.sampled_from(["dag_id='d{}'", "'d{}'"])).format(number)
        lines += [f"with DAG({_written(own, given)}):", "    pass"]
        for task in range(draw(st.integers(0, 4))):
            keywords = draw(_keywords(TASK_KEYWORDS))
            name = f"t{task}"
            operator = draw(st.sampled_from(OPERATORS))
            given = f"task_id='{name}', bash_command='echo {{{{ ds }}}}'"
            plain = f"{operator}({_written(keywords, given)})"
            shape = draw(st.integers(0, 9))
            match shape:
                case 0:
                    lines += [
                        f"    @task.bash({_written(keywords)})",
                        f"    def {name}(x=1):",
                        "        return f'echo {x}'",
                    ]
                    lines.append(f"    x{task} = {name}.override({_written({'pool': '1'})})(x=2)")
                case 1:
                    lines += [f"    @task({_written(keywords)})", f"    def {name}(x): return x"]
                    lines.append(
                        draw(st.sampled_from([f"    {name}.expand(x=[1, 2])", f"    {name}.expand(x=f())", "    pass"]))
                    )
                case 2:
                    inner = plain[:-1].replace(f"{operator}(", f"{operator}.partial(", 1)
                    lines.append(f"    {inner}).expand(env=[{{'A': '1'}}, {{'A': '2'}}])")
                case 3:
                    lines.append(f"    for i in {draw(st.sampled_from(['range(2)', 'f()']))}:")
                    lines.append("        " + plain.replace(f"'{name}'", f"f'{name}_{{i}}'", 1))
                case 4:
                    lines += [
                        "    if f():",
                        f"        {plain}",
                        "    else:",
                        f"        y = [{plain.replace(name, f'{name}b')}]",
                    ]
                case 5:
                    lines += [f"    with TaskGroup('g{task}', tooltip='x', odd=1) as g:", f"        {plain}"]
                case 6:
                    lines.append(f"    register(lambda: {plain})")
                case 7:
                    lines.append("    " + plain[:-1] + ", **COMMON, **f())")
                case _:
                    lines.append(f"    x{task} = {plain}")
    return "\n".join(lines) + "\n"


def written_keywords(source: str) -> Counter[tuple[int, str]]:
    """Line and name of each keyword of calls of operators, decorators, groups and DAGs; by a walk of its own."""
    tree = ast.parse(source)
    tasks = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("task" in ast.unparse(each) for each in node.decorator_list)
    }
    found: Counter[tuple[int, str]] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            name = called.split("(")[0]
            makes = name.split(".")[0] in {*OPERATORS, "DAG", "TaskGroup", "task", *tasks}
            for each in node.keywords if makes else ():
                found[each.lineno, each.arg or "**"] += 1
                if each.arg == "default_args" and isinstance(each.value, ast.Dict):
                    found.update((key.lineno, str(ast.literal_eval(key))) for key in each.value.keys if key is not None)
    return found


@pytest.mark.long
@given(source=sources())
def test_each_keyword_is_carried_changed_or_refused_once(source: str) -> None:
    found = read(source, pools={"p": 1})
    known = written_keywords(source)
    said = Counter((int(note.path[5:]), note.subject.rpartition(".")[2]) for note in found.notes if "." in note.subject)

    assert {key: said[key] for key in known} == dict(known)
    assert all(len(line) <= 80 for line in table_of(found.notes))


def test_a_keyword_of_each_kind_of_call_is_a_row() -> None:
    """A short one of those above."""
    source = f"""{HEAD}
with DAG("d", schedule="@daily", odd=1, default_args={{"retries": 1, "odd": 2}}) as d:
    @task(pool="p")
    def f(x): return x
    f.override(pool="q")(x=1)
    f.partial(x=2).expand(y=[1, 2])
    with TaskGroup("g", tooltip="t"):
        BashOperator(task_id="a", bash_command="true", **{{"owner": "me"}})
    if d:
        EmptyOperator(task_id="b", odd=3)
    register(lambda: EmptyOperator(task_id="c", odd=4))
"""
    found = read(source)
    known = written_keywords(source)
    said = Counter((int(note.path[5:]), note.subject.rpartition(".")[2]) for note in found.notes if "." in note.subject)

    assert {key: said[key] for key in known} == dict(known)
    assert sum(known.values()) == 18


# Hostile files.


def test_a_file_is_not_executed(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    read(f"open({str(touched)!r}, 'w')\nwith DAG('d', schedule=None): pass\n")

    assert not touched.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"print 'hello'\n",
        b"with DAG('d'):\n    x = 1 +\n",
        "with DAG('\xe9'): pass".encode("latin-1"),
        b"\0",
        b"(" * 5000,
        b"x = " + b"-" * 20000 + b"1",
    ],
)
def test_files_that_are_not_python_3_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError, match="is not valid Python 3"):
        dags_from_source(raw, namespace="default")


def test_latin_1_with_a_declaration_is_read() -> None:
    found = dags_from_source("# coding: latin-1\nwith DAG('\xe9'): pass".encode("latin-1"), namespace="default")

    assert [app["application"] for app in found.apps] == ["unnamed"]


@pytest.mark.parametrize("names", [["../x", "x"], ["a b", "a-b"], ["\u6570", "\u636e"], ["a" * 300, "a" * 299 + "b"]])
def test_strange_names_of_dags_are_valid_and_of_one_app_each(names: list[str]) -> None:
    source = "".join(f"with DAG({name!r}, schedule=None):\n    EmptyOperator(task_id={name!r})\n" for name in names)
    found = read(source)
    apps = [app["application"] for app in found.apps]

    assert len(set(apps)) == 2
    assert all(len(app) <= 64 for app in apps)
    assert sum(note.subject.endswith(".dag_id") for note in found.notes) + source.count("DAG(") >= 2


def test_long_chains_deep_nests_and_doubling_texts_are_bounded() -> None:
    tasks = "".join(f"    t{n} = EmptyOperator(task_id='t{n}')\n" for n in range(1200))
    chain = " >> ".join(f"t{n}" for n in range(1200))
    [app] = read(f"with DAG('d'):\n{tasks}    {chain}\n").apps
    assert parents(app, "t1199") == ["t1198"]
    doubling = "a0 = 'x'\n" + "".join(f"a{n} = a{n - 1} + a{n - 1}\n" for n in range(1, 60))
    assert read(f"{doubling}with DAG(a59): pass\n").notes
    nested = "".join(f"{' ' * n}if x:\n" for n in range(1, 90)) + " " * 90 + "EmptyOperator(task_id='a')\n"
    read(f"with DAG('d'):\n{nested}")


def test_more_tasks_than_an_app_has_are_refused_with_their_number() -> None:
    found = read("with DAG('d'):\n" + "".join(f"    EmptyOperator(task_id='t{n}', retries=1)\n" for n in range(10_000)))

    assert not found.apps
    assert any("10000 tasks" in note.text for note in found.notes_of(NoteKind.REFUSED))


def test_a_megabyte_of_tasks_is_read() -> None:
    line = "    BashOperator(task_id='t{0}', bash_command='echo {1}')\n"
    source = "with DAG('d', schedule='@daily'):\n" + "".join(line.format(n, "x" * 200) for n in range(1500))
    source += f"# {'x' * 750_000}\n"
    assert len(source) > 1_000_000

    [app] = read(source).apps

    assert len(app["tasks"]) == 1501
