"""`tasks.json`: the graph that Stolos documents, and the report."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.dialects.stolos.codec.tasks import stolos_from_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.job_template import ComponentKind
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob

#: The graph of its documentation: AND within `dependency_group_1`, OR between the groups.
TASKS = {
    "preprocess": {"job_type": "bash", "job_id": "{date}_{client_id}", "bash_cmd": "echo {app_name} {date}"},
    "otherPreprocess": {"job_id": "{date}_{client_id}", "bash_opts": "echo {job_id}"},
    "modelBuild": {
        "job_id": "{client_id}_{target}",
        "depends_on": {
            "dependency_group_1": [
                {
                    "app_name": ["preprocess"],
                    "target": ["purchaseRevenue", "purchaseQuantity"],
                    "date": [20140601, 20140501, 20140401],
                },
                {
                    "app_name": ["otherPreprocess"],
                    "target": ["purchaseRevenue", "purchaseQuantity"],
                    "date": [20120101, 20130101],
                },
            ],
            "dependency_group_2": {"app_name": ["preprocess"], "target": ["numberOfPageviews"], "date": [20140615]},
        },
    },
}


def _read(value: Any) -> Graph:
    return Graph([each.task for each in stolos_from_json(value).tasks])


def test_the_documented_graph() -> None:
    graph = _read(TASKS)
    (group,) = graph.parents(NodeId("modelBuild", "client1_purchaseRevenue"))
    assert (group.name, [str(each) for each in group.parents]) == (
        "dependency_group_1",
        [
            "preprocess 20140601_client1",
            "preprocess 20140501_client1",
            "preprocess 20140401_client1",
            "otherPreprocess 20120101_client1",
            "otherPreprocess 20130101_client1",
        ],
    )
    (group,) = graph.parents(NodeId("modelBuild", "client1_numberOfPageviews"))
    assert (group.name, [str(each) for each in group.parents]) == (
        "dependency_group_2",
        ["preprocess 20140615_client1"],
    )


def test_what_tasks_run_and_the_report() -> None:
    found = stolos_from_json(
        {
            **TASKS,
            "a/b": {"bash_cmd": "echo '{date}' {{}}", "max": 1},
            "c": {"valid_if_or": {"_func": "my.module.valid"}, "depends_on": {"app_name": ["a/b"]}},
            "d": {
                "job_type": "pyspark",
                "pymodule": "my.task",
                "spark_conf": {"spark.x": 1, "spark.y": True},
                "env": {"A": "b"},
                "env_from_os": ["HOME"],
                "uris": ["x.zip"],
                "options": ["--read_fp", "/data/{date}"],
            },
            "e": {"job_type": "pyspark", "pymodule": "tasks/flow.py"},
            "f": {"job_type": "my_plugin", "options": ["--level", "2"]},
        }
    )
    programs = {each.task.name: each.executable for each in found.tasks}
    assert programs["preprocess"] == BashJob('echo "$STREAMSCHED_ARG_TASK" "$STREAMSCHED_ARG_DATE"')
    assert programs["otherPreprocess"] == BashJob('echo "$STREAMSCHED_ARG_JOB_ID"')
    assert programs["a-b"] == BashJob("echo ''\"$STREAMSCHED_ARG_DATE\"'' {}")
    assert programs["d"] == SparkJob(
        "",
        ("--read_fp", "/data/{date}"),
        None,
        {"spark.x": "1", "spark.y": "true"},
        "my.task",
        ".",
        {"A": "b"},
        ("HOME",),
        ("x.zip",),
    )
    assert programs["e"] == SparkJob("", module="flow", folder="tasks")
    assert programs["f"] == PythonJob("my_plugin", ("--level", "2"), ".")
    dependent = next(each.task for each in found.tasks if each.task.name == "c")
    assert dependent.groups[0].entries[0].tasks == ("a-b",)
    assert [each.path for each in found.differences] == [
        "$['a/b']",
        "$.modelBuild.depends_on",
        "$.modelBuild.bash_cmd",
        "$['a/b'].max",
        "$.c.valid_if_or._func",
        "$.c.bash_cmd",
        "$.d.pymodule",
        "$.e.pymodule",
        "$.f.job_type",
    ]


@pytest.mark.parametrize(
    ("tasks", "path"),
    [
        ({"a": {"bash_cmd": "echo {nothing}"}}, "$.a.bash_cmd"),
        ({"a": {"bash_opts": "echo {"}}, "$.a.bash_opts"),
        ({"a": {"job_type": "pyspark"}}, "$.a.pymodule"),
        ({"a": {"job_type": "pyspark", "pymodule": "m", "spark_conf": {"x": []}}}, "$.a.spark_conf.x"),
        ({"a": {"job_type": "pyspark", "pymodule": "m", "env": {"a b": ""}}}, "$.a.env"),
        ({"a": {"job_type": "no plug-in"}}, "$.a.job_type"),
        ({"a": {"job_id": "{x}", "depends_on": {"app_name": "b"}}}, "$.a.depends_on.app_name"),
        ({"a/b": {}, "a-b": {}}, "$.a-b"),
        ([], "$"),
        ({"a": 1}, "$.a"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(tasks: Any, path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        _read(tasks)
    assert caught.value.path == path


def test_groups_alternatives_and_literal_ids_of_its_larger_example() -> None:
    graph = _read(
        {
            "app1": {},
            "depends_on1": {
                "job_id": "{date}_{testID}",
                "autofill_values": {"testID": []},
                "depends_on": {
                    "depgrp1": [
                        {
                            "app_name": ["app1"],
                            "collection_name": ["profile"],
                            "date": [20140601],
                            "client_id": [876, 1011],
                            "testID": ["testID1"],
                        },
                        {"app_name": ["app1"], "job_id": ["20140601_999_purchase"], "testID": ["testID1"]},
                    ],
                    "depgrp3": {
                        "app_name": ["app1"],
                        "collection_name": ["profile"],
                        "date": [20140601],
                        "client_id": [876],
                        "testID": ["testID3"],
                    },
                    "depgrp4": {
                        "app_name": ["app1"],
                        "collection_name": ["profile"],
                        "date": [20140601],
                        "client_id": [444],
                        "testID": ["testID3"],
                    },
                },
            },
        }
    )
    (first,) = graph.parents(NodeId("depends_on1", "20140601_testID1"))
    assert [each.job_id for each in first.parents] == [
        "20140601_876_profile",
        "20140601_1011_profile",
        "20140601_999_purchase",
    ]
    assert [str(child) for child, _ in graph.children(NodeId("app1", "20140601_999_purchase"))] == [
        "depends_on1 20140601_testID1"
    ]
    either = graph.parents(NodeId("depends_on1", "20140601_testID3"))
    assert [group.name for group in either] == ["depgrp3", "depgrp4"]
    assert graph.parents(NodeId("depends_on1", "20140602_testID1")) == ()


def test_each_part_of_a_job_id_without_a_validator_is_named_once() -> None:
    kinds = {"date": ComponentKind.DATE}
    found = stolos_from_json(TASKS, kinds=kinds, validations="shop", validated={"target"})
    assert [(each.path, each.text) for each in found.differences if "validator" in each.text] == [
        ("$.preprocess.job_id", "'client_id' has no validator: any text is one")
    ]
    assert {each.task.template.validations for each in found.tasks} == {"shop"}
    assert not [each for each in stolos_from_json(TASKS).differences if "validator" in each.text]
