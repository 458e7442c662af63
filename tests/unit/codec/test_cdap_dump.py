"""A dump of CDAP: what its applications become, and answers that are odd."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.codec.moving.draft import NoteKind
from streamsched.dialects.cdap.codec.dump.dump import DumpRequest, import_dump
from streamsched.domain.errors import DecodeError, InvalidError
from tests.support.cdap_dump import SavedAnswers, action, dump, record
from tests.support.cdap_shop import APP, answers, on, only, read, refused


def test_a_dump_with_200_schedules() -> None:
    found = read(dump())

    assert found.summary == "cdap apps 40 programs 214 schedules 200 preferences 24 runs 1200 refused 19"
    assert sorted({note.text.partition(":")[0] for note in found.imported.notes_of(NoteKind.REFUSED)}) == [
        "of MapReduce program count",
        "program lookup of type service",
        "the preference is a setting of CDAP itself, such as a profile or a size",
    ]


def test_a_spark_program_has_its_class_and_its_jar() -> None:
    found = read(answers(), jars="https://repo/jars/")

    assert only(found)["programs"]["join"] == {
        "type": "spark",
        "main": "https://repo/jars/shop-1.1.0.jar",
        "main_class": "com.acme.Join",
        "driver": {"cores": 1, "memory": "1024m"},
        "executors": {"cores": 2, "memory": "2048m"},
    }
    assert only(found)["programs"]["load"] == only(found)["programs"]["join"]


def test_a_mapreduce_program_is_a_command() -> None:
    given = answers()
    given[APP]["programs"].append({"type": "Mapreduce", "name": "count"})
    given[*APP, "mapreduce", "count"] = {"className": "com.acme.Count", "mapperResources": {"memoryMB": 512}}

    program = only(read(given, jars="/srv/our jars"))["programs"]["count"]

    command = "exec hadoop jar '/srv/our jars/shop-1.1.0.jar' com.acme.Count -Dmapreduce.map.memory.mb=512"
    assert program == {"type": "bash", "command": command}


@pytest.mark.parametrize(
    ("detail", "specification", "why"),
    [
        (
            {"artifact": {"name": "cdap-data-pipeline", "version": "6.9.0", "scope": "SYSTEM"}},
            None,
            "part of CDAP itself",
        ),
        ({}, {"className": "io.cdap.cdap.etl.spark.batch.ETLSpark", "mainClassName": "a.B"}, "part of CDAP itself"),
        ({}, {}, "has no specification"),
        ({}, {"mainClassName": "no class; rm -rf /"}, "names no class"),
        ({"artifact": {"name": "../../etc", "version": "1"}}, None, "has no jar"),
        ({"artifact": 7}, None, "has no jar"),
    ],
)
def test_a_program_that_cannot_run_is_a_placeholder_that_says_why(
    detail: dict[str, Any], specification: Any, why: str
) -> None:
    given = answers()
    given[APP] |= detail
    if specification is not None:
        given[*APP, "spark", "join"] = specification

    found = read(given)

    program = only(found)["programs"]["join"]
    assert (program["type"], why in program["command"]) == ("bash", True)
    assert why in refused(found)["namespaces/default/apps/shop/spark/join"]


def test_preferences_go_where_what_is_nearer_to_a_run_wins() -> None:
    given = answers(
        {
            ("preferences",): {"a": "installation", "b": "installation", "c": "installation", "d": "installation"},
            ("namespaces", "default", "preferences"): {"b": "namespace", "c": "namespace", "d": "namespace"},
            (*APP, "preferences"): {"c": "app", "d": "app", "e": "app"},
            (*APP, "workflows", "load", "preferences"): {"d": "program"},
            (*APP, "schedules"): [on("report", "one") | {"properties": {"c": "schedule"}}],
        }
    )

    found = read(given)

    assert found.preferences == {"default": {"a": "installation", "b": "namespace", "c": "namespace", "d": "namespace"}}
    assert only(found)["programs"]["load"]["defaults"] == {"c": "app", "d": "program", "e": "app"}
    assert only(found)["programs"]["join"]["defaults"] == {"c": "app", "d": "app", "e": "app"}
    assert only(found)["schedules"]["one"]["properties"] == {"c": "schedule", "d": "program"}


def test_properties_and_defaults_that_are_no_objects_are_refused_where_preferences_would_join_them() -> None:
    preferences = {
        ("namespaces", "default", "preferences"): {"a": "namespace"},
        (*APP, "workflows", "load", "preferences"): {"a": "program"},
    }
    odd = on("report", "one") | {"properties": ["a"]}
    given = {"load": {"type": "bash", "command": "true", "defaults": ["a"]}}

    found = read(answers({**preferences, (*APP, "schedules"): [odd]}), programs=given)

    assert refused(found) == {
        "namespaces/default/apps/shop/workflows/load": "its program is left out: defaults: must be an object but is a "
        "list",
        "namespaces/default/apps/shop/schedules[0].properties": "must be an object but is ['a']; program one is a "
        "placeholder, which nothing starts: give it a schedule",
    }


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("n", 7, "is no text"),
        ("system.resources.memory", "1", "is a setting of CDAP itself"),
        ("key.day", "1", "would hide it"),
        ("logical.start.time", "1", "would hide it"),
        ("n", "x" * 10_000_000, "must have at most 32768 characters"),
        ("n", "a\0b", "NUL"),
        ("", "x", "empty name"),
    ],
)
def test_an_odd_preference_does_not_hold_up_others(name: str, value: Any, why: str) -> None:
    found = read(answers({("namespaces", "default", "preferences"): {name: value, "good": "1"}}))

    assert found.preferences == {"default": {"good": "1"}}
    (text,) = [each for path, each in refused(found).items() if "preferences" in path]
    assert why in text
    assert len(text) < 400


def test_names_that_ids_cannot_have_are_changed_everywhere() -> None:
    given = answers({("namespaces", "default", "apps"): [{"name": "my.shop 1"}]})
    for path in [each for each in given if each[:4] == APP]:
        given["namespaces", "default", "apps", "my.shop 1", *path[4:]] = given.pop(path)
    at = ("namespaces", "default", "apps", "my.shop 1")
    given[at]["programs"] += [{"type": "Workflow", "name": "a.b"}, {"type": "Workflow", "name": "a b"}]
    given[*at, "workflows", "a.b"] = given[*at, "workflows", "a b"] = {"nodes": [action("join")]}
    schedule = on("a b", "each. day ü", app="my.shop 1") | {"application": "my.shop 1"}
    given[*at, "schedules"] = [schedule | {"program": {"programName": "a.b", "programType": "WORKFLOW"}}]

    app = only(read(given))

    assert (app["application"], {"a-b", "a-b-2"} <= set(app["programs"])) == ("my-shop-1", True)
    (name,) = [each for each in app["schedules"] if each.startswith("each")]
    assert name == "each. day ü"
    assert app["schedules"][name]["program"] == "a-b"
    assert app["schedules"][name]["trigger"]["programId"]["program"] == "a-b-2"


def test_runs_that_have_ended_are_taken_the_newest_of_each_program() -> None:
    given = answers({(*APP, "workflows", "load", "runs"): [record(f"r{number}", number) for number in range(9)]})
    given[*APP, "spark", "join", "runs"] = [
        *(record(status, 1, status=status) for status in ("RUNNING", "REJECTED", "PENDING", "ODD")),
        {"runid": "x"},
        7,
        record("bad", 3) | {"end": "soon"},
        record("args", 4) | {"properties": {"runtimeArgs": "{no json"}},
    ]

    found = read(given, runs=5)

    load = [run for run in found.runs if run.program.name == "load"]
    assert [run.id for run in load] == [f"cdap-r{number}-1f2e-11ee" for number in range(5)]
    assert [run.state.value for run in load] == ["COMPLETED", "COMPLETED", "FAILED", "KILLED", "COMPLETED"]
    assert load[0].arguments == {"logical.start.time": "1700000000000", "day": "x"}
    assert [run.id for run in found.runs if run.program.name == "join"] == ["cdap-REJECTED-1f2e-11ee"]
    assert len(read(given, runs=0).runs) == 0


@pytest.mark.parametrize("answer", [None, [], {}, "x", 7, [7], [{"name": ""}], [{"name": "a b"}], [{"name": ["x"]}]])
def test_odd_namespaces(answer: Any) -> None:
    with suppress(InvalidError):
        found = read({("namespaces",): answer})
        assert found.imported.apps == ()
        assert refused(found)


def test_a_part_that_cannot_be_read_does_not_hold_up_others() -> None:
    class Broken(SavedAnswers):
        def read(self, *path: str, most: int | None = None) -> Any:
            if path[-1] in ("report", "clean", "preferences", "runs") or path[3:4] == ("gone",):
                raise DecodeError("/".join(path), "the server answers 500")
            return super().read(*path, most=most)

    given = answers({("namespaces", "default", "apps"): [{"name": "gone"}, {"name": "shop"}]})
    found = import_dump(Broken(given), DumpRequest())

    gone, shop = found.imported.apps
    assert (gone["programs"], gone["schedules"]) == ({}, {})
    assert shop["programs"]["join"]["type"] == "spark"
    assert refused(found)["namespaces/default/apps/gone"] == "its programs are left out: the server answers 500"


_PATHS = sorted(answers({(*APP, "workflows", "load", "runs"): [record("r", 0)], (*APP, "schedules"): [on("load")]}))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ("name", "nodes", "nodeType", "branches", "program", "programName", "type", "programs", "artifact")
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(_PATHS[1:]), _JSON, max_size=4))
def test_whatever_the_answers_are_the_apps_are_valid(odd: dict[tuple[str, ...], Any]) -> None:
    """One odd answer, or four, in the place of good ones."""
    given = answers({(*APP, "workflows", "load", "runs"): [record("r", 0)], (*APP, "schedules"): [on("load")]})

    read({**given, **odd})
