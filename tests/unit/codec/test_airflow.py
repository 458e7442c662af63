"""DAG files of Airflow: what each part becomes."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from streamsched.codec.moving.draft import NoteKind
from streamsched.codec.schedules.schedule import app_from_json
from tests.support.airflow_imports import HEAD, is_placeholder, one, parents, read, rows


def test_task_flow_and_expand_are_one_schedule_and_a_graph() -> None:
    source = f"""{HEAD}
@dag(schedule="0 6 * * *", start_date=datetime(2024, 1, 1))
def flow():
    @task.bash
    def load(table):
        return f"echo {{table}}"
    @task
    def report(rows): return len(rows)
    report(load.expand(table=["a", "b"]))
flow()
"""
    [app] = read(source).apps

    assert list(app["schedules"]) == ["flow"]
    assert list(app["tasks"]) == ["flow", "load-0", "load-1", "report"]
    assert app["programs"]["load-1"]["command"] == "echo b"
    assert parents(app, "report") == ["load-0", "load-1"]
    assert parents(app, "load-0") == ["flow"]
    assert is_placeholder(app, "report")


def test_rules_mail_lateness_and_pools_do_not_vanish() -> None:
    body = """
a = BashOperator(task_id='a', bash_command='true', pool='p', sla=timedelta(hours=1), email_on_failure=True)
b = BashOperator(task_id='b', bash_command='true', trigger_rule=TriggerRule.ALL_DONE, pool='q', pool_slots=2)
a >> b
"""
    app, found = one(body, pools={"q": 4})

    assert app["tasks"]["b"]["depends_on"] == {"task": ["a"], "ends": ["complete", "failed", "skipped"]}
    assert app["tasks"]["b"]["schedule"]["constraints"] == [
        {"type": "GROUP", "group": "q", "limit": 4, "weight": 2, "waitUntilMet": True}
    ]
    assert [kind for kind, _ in rows(found, "a.sla") + rows(found, "a.email_on_failure")] == ["refused", "carried"]
    assert rows(found, "a.pool") == [("refused", "how many slots has pool p? give `--pool p=SLOTS`")]
    assert rows(found, "b.trigger_rule") == [("carried", "all_done")]


def test_addresses_of_tasks_become_recipients_of_the_app() -> None:
    body = """
a = BashOperator(task_id='a', bash_command='true')
b = BashOperator(task_id='b', bash_command='true', email='x@y.z; v@w.x', email_on_retry=False)
c = BashOperator(task_id='c', bash_command='true', email_on_failure=False)
"""
    app, found = one(body, "default_args={'email': ['a@b.c']}")
    assert app["onFailure"] == [
        {"mail": ["a@b.c"], "schedules": ["a"]},
        {"mail": ["x@y.z", "v@w.x"], "schedules": ["b"]},
    ]
    assert [kind for kind, _ in rows(found, "default_args.email")] == ["changed"]
    assert [kind for kind, _ in rows(found, "b.email") + rows(found, "b.email_on_retry")] == ["carried"] * 2
    assert rows(found, "c.email_on_failure") == [("carried", "failures are not mailed")]


def test_an_address_of_all_tasks_is_for_the_whole_app() -> None:
    app, _ = one("a = BashOperator(task_id='a', bash_command='true')", "default_args={'email': 'a@b.c'}")
    assert app["onFailure"] == [{"mail": ["a@b.c"]}]


@pytest.mark.parametrize("email", ["'no address'", "5", "['a@b.c', 5]", "Variable.get('team')", "['a@b.c'] * 21"])
def test_an_address_that_cannot_be_read_refuses_its_row_only(email: str) -> None:
    app, found = one(f"a = BashOperator(task_id='a', bash_command='true', email={email})")
    assert "onFailure" not in app
    assert [kind for kind, _ in rows(found, "a.email")] == ["refused"]


def test_more_tasks_and_addresses_than_recipients_have_are_told_apart() -> None:
    app, _ = one(
        "for n in range(2500):\n    BashOperator(task_id=f't{n}', bash_command='true', email='a@b.c')\n"
        "for n in range(25):\n    BashOperator(task_id=f'u{n}', bash_command='true', email=f'u{n}@b.c')"
    )
    assert [len(each["schedules"]) for each in app["onFailure"]] == [1000, 1000, 500, *[1] * 17]


def test_one_branch_of_a_branch_runs() -> None:
    body = """
@task.branch
def choose():
    return "b"
a, b = (BashOperator(task_id="a", bash_command="true"), BashOperator(task_id="b", bash_command="true"))
choose() >> [a, b]
"""
    app, _ = one(body)

    assert app["programs"]["choose"] == {"type": "bash", "command": "exit 11", "success_codes": [11]}
    assert app["tasks"]["choose"]["exit_codes"] == {"11": ["b"]}


def test_a_branch_that_is_code_is_a_placeholder_that_says_what_to_write() -> None:
    body = """
def pick(**context):
    return "a" if context["x"] else ["a", "b"]
choose = BranchPythonOperator(task_id="choose", python_callable=pick)
a = BashOperator(task_id="a", bash_command="true")
b = BashOperator(task_id="b", bash_command="true")
join = BashOperator(task_id="join", bash_command="true", trigger_rule="none_failed")
choose >> [a, b] >> join
choose >> join
"""
    inner = body.strip("\n").split("\n")
    source = HEAD + "\n".join(inner[:2]) + "\nwith DAG('d', schedule=None) as d:\n"
    found = read(source + "".join(f"    {line}\n" for line in inner[2:]))
    [app] = found.apps

    assert is_placeholder(app, "choose")
    command = app["programs"]["choose"]["command"]
    assert "exit 11 goes on with a, exit 12 goes on with a and b, exit 13 goes on with b" in command
    codes = app["tasks"]["choose"]["exit_codes"]
    assert codes["11"] == ["a", "join"], "what is below a chosen task is not skipped"
    assert codes["10"] == []
    assert [kind for kind, _ in rows(found, "choose")] == ["refused"]


def test_a_template_is_an_argument_and_never_text_that_runs() -> None:
    body = """
a = BashOperator(task_id='a', bash_command="echo '{{ ds }}' ${HOME} {{ ds_nodash }}")
b = BashOperator(task_id='b', bash_command="echo {{ ti.xcom_pull('a') }}")
c = BashOperator(task_id='c', bash_command="echo {% if ds %}x{% endif %}")
"""
    app, found = one(body, version=3)

    assert app["programs"]["a"]["command"] == "echo '{ds}' ${{HOME}} {ds_nodash}"
    assert app["programs"]["a"]["fill"] is True
    assert app["tasks"]["a"]["arguments"]["ds"] == {"of": "due", "format": "%Y-%m-%d"}
    for name, template in (("b", "{{ ti.xcom_pull('a') }}"), ("c", "{% if ds %}")):
        assert is_placeholder(app, name)
        assert rows(found, name)[0][1].endswith(f"the template {template} is not understood")
    assert not any(
        "{{ ti" in str(each.get("command")).split("replace this program")[0] for each in app["programs"].values()
    )


def test_quotes_around_templates_run_what_they_say() -> None:
    """The command that is stored, in a real shell."""
    body = """
command = "echo '{{ ds }}' \\"{{ ds }}\\" {{ params.who }} '{x}'"
a = BashOperator(task_id='a', bash_command=command, params={"who": "a;b c"})
"""
    app, _ = one(body, version=3)
    program = app_from_json(app).programs[1]
    command = program.executable.command  # type: ignore[union-attr]
    variables = {"STREAMSCHED_ARG_DS": "2024-01-02", "STREAMSCHED_ARG_PARAMS_WHO": program.arguments["params.who"]}
    done = subprocess.run(["bash", "-c", command], env=variables, capture_output=True, text=True, check=True)

    assert done.stdout == "2024-01-02 2024-01-02 a;b c {x}\n"


# Templates.


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{ ds }}", "2024-03-01"),
        ("{{ds_nodash}}", "20240301"),
        ("{{ ts }}", "2024-03-01T06:30:00+00:00"),
        ("{{ ts_nodash }}", "20240301T063000"),
        ("{{ logical_date }}", "2024-03-01 06:30:00+00:00"),
        ("{{ data_interval_start }}", "2024-03-01 06:30:00+00:00"),
        ("{{ data_interval_end }}", "2024-03-04 06:30:00+00:00"),
        ("{{ data_interval_end | ds }}", "2024-03-04"),
        ("{{ macros.ds_add(ds, -1) }}", "2024-02-29"),
        ("{{ macros.ds_format(ds, '%Y-%m-%d', '%Y/%m') }}", "2024/03"),
        ("{{ (logical_date - macros.timedelta(days=1)).strftime('%d.%m.') }}", "29.02."),
        ("{{ execution_date.subtract(hours=7).isoformat() }}", "2024-02-29T23:30:00+00:00"),
        ("{{ yesterday_ds_nodash }}", "20240229"),
        ("{{ tomorrow_ds }}", "2024-03-02"),
    ],
)
def test_times_of_a_weekday_schedule_of_airflow_2(template: str, shown: str) -> None:
    """Monday's run is about the interval from Friday on."""
    task = f"BashOperator(task_id='a', bash_command={f'echo {template}'!r})"
    app, _ = one(task, "schedule='30 6 * * 1-5'", version=2)
    found = next(each for each in app_from_json(app).tasks if each.name == "a")
    [name] = found.arguments

    assert app["programs"]["a"]["command"] == f"echo {{{name}}}"
    assert found.arguments[name].value(found.template, ("20240304T063000",)) == shown


def test_in_airflow_3_the_logical_date_is_when_a_run_is_due() -> None:
    app, _ = one("BashOperator(task_id='a', bash_command='{{ ds }}')", "schedule='30 6 * * 1-5'", version=3)
    task = next(each for each in app_from_json(app).tasks if each.name == "a")

    assert task.arguments["ds"].value(task.template, ("20240304T063000",)) == "2024-03-04"


def test_the_version_is_read_off_the_imports_and_what_it_changes_is_said() -> None:
    body = "with DAG('d', schedule='@daily'):\n    BashOperator(task_id='a', bash_command='{{ ds }}')\n"
    second, third = read(HEAD + body), read("from airflow.sdk import DAG\n" + body)

    assert "previous" in second.apps[0]["tasks"]["a"]["arguments"]["ds"]
    assert "previous" not in third.apps[0]["tasks"]["a"]["arguments"]["ds"]
    assert rows(second, "DAG d.schedule")[0][0] == rows(third, "DAG d.schedule")[0][0] == "changed"


def test_parameters_and_variables() -> None:
    body = "BashOperator(task_id='a', bash_command='run {{ params.size }} {{ var.value.bucket }} {{ var.value.zone }}')"
    app, _ = one(body, "schedule=None, params={'size': 5}", variables={"zone": "eu"})

    assert app["programs"]["a"]["defaults"] == {"params.size": "5", "var.zone": "eu"}
    guard = ': "${{STREAMSCHED_ARG_VAR_BUCKET?'
    assert app["programs"]["a"]["command"].startswith(guard), "an unknown variable fails, and is not empty"
    assert is_placeholder(one("BashOperator(task_id='a', bash_command='{{ params.x }}')")[0], "a")


# Structure.


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("a >> [b, c] >> e", {"b": ["a"], "c": ["a"], "e": ["b", "c"]}),
        ("e << b << a", {"b": ["a"], "e": ["b"]}),
        ("chain(a, [b, c], e)", {"b": ["a"], "c": ["a"], "e": ["b", "c"]}),
        ("a.set_downstream([b, c])", {"b": ["a"], "c": ["a"]}),
        ("for each in [b, c]:\n    a >> each", {"b": ["a"], "c": ["a"]}),
        ("a >> Label('x') >> b", {"b": ["a"]}),
        ("[x, y] = [EmptyOperator(task_id=f'n{n}') for n in (1, 2)]\na >> y", {"n1": ["d"], "n2": ["a"]}),
        ("cross_downstream([a, b], [c, e])", {"c": ["a", "b"], "e": ["a", "b"]}),
    ],
)
def test_order(order: str, expected: dict[str, list[str]]) -> None:
    body = "\n".join(f"{name} = BashOperator(task_id='{name}', bash_command='true')" for name in "abce")
    app, found = one(f"{body}\n{order}")

    assert {name: parents(app, name) for name in expected} == expected
    assert not [note for note in found.notes if note.kind is NoteKind.REFUSED]


def test_an_order_that_is_not_known_is_a_placeholder() -> None:
    body = """
a = BashOperator(task_id='a', bash_command='true')
(a if x else None) >> BashOperator(task_id='b', bash_command='true')
"""
    app, found = one(body)

    assert is_placeholder(app, "b")
    assert any("the order that" in note.text for note in found.notes_of(NoteKind.REFUSED))


def test_loops_and_comprehensions_over_known_lists_are_carried_out() -> None:
    body = """
TABLES = ["x", "y"]
last = None
for number, table in enumerate(TABLES):
    load = BashOperator(task_id=f"load_{table}", bash_command=f"echo {number} {table}")
all = [BashOperator(task_id=f"check_{each}", bash_command="true") for each in TABLES]
load >> all
"""
    app, _ = one(body)

    assert list(app["tasks"])[1:] == ["load_x", "load_y", "check_x", "check_y"]
    assert app["programs"]["load_y"]["command"] == "echo 1 y"
    assert parents(app, "check_x") == ["load_y"]


def test_what_a_condition_makes_is_a_placeholder() -> None:
    app, found = one("if os.environ.get('X'):\n    BashOperator(task_id='a', bash_command='rm -rf /')")

    assert is_placeholder(app, "a")
    assert rows(found, "a")[0][0] == "refused"


def test_groups_are_prefixes_and_are_ordered_as_a_whole() -> None:
    body = """
a = BashOperator(task_id='a', bash_command='true')
with TaskGroup('g') as g:
    b = BashOperator(task_id='b', bash_command='true')
    c = BashOperator(task_id='c', bash_command='true')
    b >> c
e = BashOperator(task_id='e', bash_command='true')
a >> g >> e
"""
    app, found = one(body)

    assert parents(app, "g-b") == ["a"]
    assert parents(app, "e") == ["g-c"]
    assert rows(found, "b.task_id") == [("changed", "task g.b is named g-b")]


def test_tasks_in_a_circle_are_refused_as_airflow_refuses_them() -> None:
    body = "\n".join(f"{name} = BashOperator(task_id='{name}', bash_command='true')" for name in "abc")
    found = read(f"{HEAD}with DAG('d'):\n" + "".join(f"    {x}\n" for x in [*body.split("\n"), "a >> b >> c >> a"]))

    assert not found.apps
    assert any("wait for each other" in note.text for note in found.notes_of(NoteKind.REFUSED))


def test_tasks_of_another_dag_are_not_taken() -> None:
    source = f"""{HEAD}
one = DAG("one", schedule=None)
two = DAG("two", schedule=None)
a = BashOperator(task_id="a", bash_command="true", dag=one)
b = BashOperator(task_id="b", bash_command="true", dag=one)
c = BashOperator(task_id="c", bash_command="true", dag=two)
a >> b
with two:
    e = BashOperator(task_id="e", bash_command="true")
c >> e
"""
    first, second = read(source).apps

    assert list(first["tasks"]) == ["one", "a", "b"]
    assert list(second["tasks"]) == ["two", "c", "e"]
    assert (parents(first, "b"), parents(second, "e")) == (["a"], ["c"])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("'@daily'", {"type": "TIME", "cronExpression": "@daily"}),
        ("timedelta(hours=2)", {"type": "EVERY", "interval": "2h"}),
        ("Asset('a') | Asset('b')", "OR"),
        ("[Asset('a'), Asset('b')]", "AND"),
        ("CronTriggerTimetable('0 1 * * *', timezone='Asia/Tokyo')", "TIME"),
        ("AssetOrTimeSchedule(timetable=CronTriggerTimetable('0 1 * * *'), assets=[Asset('a')])", "OR"),
        ("None", {"type": "EVENT", "event": "start-d"}),
        ("'@continuous'", None),
        ("'61 * * * *'", None),
        ("open('x')", None),
    ],
)
def test_schedules(schedule: str, expected: Any) -> None:
    app, found = one("BashOperator(task_id='t', bash_command='true')", f"schedule={schedule}")
    [made] = app["schedules"].values()

    if expected is None:
        assert made["trigger"]["type"] == "EVENT", "only a person starts it"
        assert rows(found, "DAG d.schedule")[0][0] == "refused"
    else:
        assert made["trigger"] == expected if isinstance(expected, dict) else made["trigger"]["type"] == expected


def test_limits_retries_and_pauses() -> None:
    body = """
BashOperator(task_id='a', bash_command='true', retries=2, retry_delay=timedelta(minutes=1),
    execution_timeout=timedelta(hours=1), max_active_tis_per_dag=3, pool='p', priority_weight=2, depends_on_past=True)
"""
    dag = "schedule='@daily', catchup=False, max_active_runs=1, max_active_tasks=4, is_paused_upon_creation=True"
    app, found = one(body, dag, pools={"p": 5})
    own = app["tasks"]["a"]["schedule"]

    assert app["schedules"]["d"] == {
        "program": "d",
        "trigger": {"type": "TIME", "cronExpression": "@daily"},
        "overlap": "queue",
        "misfire": "one",
        "enabled": False,
    }
    assert own["retry"] == {"attempts": 3, "delay": "1m", "longest": "1m"}
    assert own["maxDuration"] == "1h"
    assert own["constraints"] == [
        {"type": "POOL", "pool": "p", "size": 5, "priority": 2, "waitUntilMet": True},
        {"type": "CONCURRENCY", "maxConcurrency": 3, "waitUntilMet": True},
        {"type": "GROUP", "group": "d-tasks", "limit": 4, "waitUntilMet": True},
        {"type": "CONCURRENCY", "maxConcurrency": 1, "of": "schedule", "waitUntilMet": True},
    ]
    assert rows(found, "a.depends_on_past")[0][0] == "refused"
    assert rows(found, "DAG d.max_active_runs")[0][0] == "changed"


@pytest.mark.parametrize("rule", ["all_done_setup_success", "all_done_min_one_success", "of_my_own"])
def test_a_rule_that_is_not_known_is_a_placeholder(rule: str) -> None:
    app, found = one(f"BashOperator(task_id='a', bash_command='true', trigger_rule='{rule}')")

    assert is_placeholder(app, "a")
    assert rows(found, "a.trigger_rule")[0][0] == "refused"


def test_given_programs_replace_placeholders() -> None:
    given = {"a": {"type": "bash", "command": "echo {ds}", "fill": True}, "d.b": {"type": "python", "target": "m:b"}}
    app, found = one("a = XOperator(task_id='a', x=1)\nb = XOperator(task_id='b')", programs={**given, "zz": {}})

    assert not is_placeholder(app, "a")
    assert app["programs"]["b"]["target"] == "m:b"
    assert "ds" in app["tasks"]["a"]["arguments"]
    assert rows(found, "zz") == [("refused", "is a given program, and there is no such task")]
