"""Where the driver of a Spark program runs, as the builder and JSON take it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamsched import App, secret
from streamsched.codec.schedules.schedule import app_from_json, app_to_json
from streamsched.domain.errors import ConfigurationError, DecodeError, InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.spark_deployment import DeployMode, check_profile
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.schedules.process_job import SparkJob, check_spark_deployment
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.spark.needs.deployable import check_prepared
from streamsched.spark.needs.options import with_profile

TOKEN = Secret("env", "TOKEN")
SERVERS: dict[str, Any] = {
    "packages": ["org.postgresql:postgresql:42.7.4"],
    "jars": ["driver.jar"],
    "archives": ["data.tar.gz#data"],
    "driver": {"memory": "2g"},
    "executors": {"instances": 2},
}


@pytest.mark.parametrize("mode", ["client", "cluster", "connect"])
def test_a_deploy_mode_is_kept(mode: str) -> None:
    app = App("shop")
    app.spark("join", main="join.py", deploy_mode=mode)

    assert app_from_json(app_to_json(app.definition())) == app.definition()


@pytest.mark.parametrize(
    ("fields", "path", "why"),
    [
        ({"deploy_mode": "clustr"}, "$.programs.join.deploy_mode", "client, cluster, connect"),
        ({"deploy_mode": "cluster", "master": "local[2]"}, "$.programs.join.master", "where no driver can run"),
        ({"deploy_mode": "connect", "master": "yarn"}, "$.programs.join.master", "needs sc://host:port"),
        ({"master": "sc://there:15002"}, "$.programs.join.master", "needs deploy_mode connect"),
        (
            {"deploy_mode": "cluster", "conf": {"spark.submit.deployMode": "cluster"}},
            '$.programs.join.conf["spark.submit.deployMode"]',
            "leave it out",
        ),
    ],
)
def test_what_does_not_fit_its_deploy_mode_is_refused(fields: dict[str, Any], path: str, why: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=re.escape(why)) as caught:
        App("shop").spark("join", main="join.py", **fields)
    assert caught.value.path == path

    program = {"name": "join", "type": "spark", "main": "j.py", **fields}
    with pytest.raises((InvalidDefinitionError, DecodeError), match=re.escape(why)) as caught:
        app_from_json({"application": "shop", "programs": [program]})
    assert caught.value.path == path.replace(".join", "[0]")


@pytest.mark.parametrize("mode", ["cluster", "connect"])
def test_a_module_needs_client_mode(mode: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="deploy_mode client") as caught:
        App("shop").spark("join", pymodule="tasks.join", deploy_mode=mode)
    assert caught.value.path == "$.programs.join.pymodule"


@pytest.mark.parametrize(
    ("mode", "name", "value", "field"),
    [
        ("cluster", "requirements", "requirements.txt", "requirements"),
        ("connect", "requirements", "requirements.txt", "requirements"),
        *(("connect", name, value, name) for name, value in SERVERS.items()),
        ("connect", "py_files", ["a.zip", "tools.whl"], "py_files[1]"),
        ("connect", "files", ["https://there/words.txt"], "files[0]"),
        *(
            (mode, name, {"TOKEN": secret("env:TOKEN")}, field)
            for mode in ("cluster", "connect")
            for name, field in (("conf", 'conf["TOKEN"]'), ("env", "env.TOKEN"))
        ),
    ],
)
def test_what_a_deploy_mode_cannot_give_is_refused(mode: str, name: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=mode) as caught:
        App("shop").spark("join", main="join.py", deploy_mode=mode, **{name: value})
    assert caught.value.path == f"$.programs.join.{field}"

    app = App("shop")
    app.spark("join", main="join.py", **{name: value})  # in client mode
    stored = app_to_json(app.definition())
    stored["programs"][0]["deploy_mode"] = mode
    with pytest.raises(InvalidDefinitionError, match=mode) as caught:
        app_from_json(stored)
    assert caught.value.path == f"$.programs[0].{field}"


@pytest.mark.parametrize(
    ("mode", "given"),
    [("cluster", SERVERS), *((mode, {"py_files": ["a.zip"], "files": ["b.txt"]}) for mode in ("cluster", "connect"))],
)
def test_what_a_deploy_mode_can_give_is_kept(mode: str, given: dict[str, Any]) -> None:
    app = App("shop")
    app.spark("join", main="join.py", deploy_mode=mode, profile="big", env={"A": "b"}, **given)

    assert app_from_json(app_to_json(app.definition())) == app.definition()


def bundled(master: str | None, main: str = "join.py") -> SparkJob:
    return SparkJob(main, master=master, needs=SparkNeeds(bundle="a" * 64), deploy_mode=DeployMode.CLUSTER)


def test_a_bundle_is_for_clusters_to_which_it_is_uploaded() -> None:
    with pytest.raises(InvalidDefinitionError, match="only launchers have") as caught:
        check_spark_deployment(bundled("spark://there:7077"), "$.programs[0]")
    assert caught.value.path == "$.programs[0].main"

    check_spark_deployment(bundled("yarn"), "$.programs[0]")
    check_spark_deployment(bundled("spark://there:7077", main="https://there/join.py"), "$.programs[0]")


PROFILES = [
    ("cluster", SparkProfile("big", secret_conf={"spark.hadoop.key": TOKEN}), "'big' has secrets"),
    ("connect", SparkProfile("big", secret_conf={"spark.hadoop.key": TOKEN}), "'big' has secrets"),
    ("connect", SparkProfile("big", driver=DriverSize(cores=2)), "'big' has sizes"),
    ("connect", SparkProfile("big", executors=ExecutorSize(cores=2)), "'big' has sizes"),
    ("client", SparkProfile("big", "sc://there:15002"), "needs deploy_mode connect"),
    ("cluster", SparkProfile("big", "local[2]"), "where no driver can run"),
    ("connect", SparkProfile("big", "yarn"), "needs sc://host:port"),
]


@pytest.mark.parametrize(("mode", "profile", "why"), PROFILES)
def test_a_profile_fits_the_deploy_mode(mode: str, profile: SparkProfile, why: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=re.escape(why)) as caught:
        check_profile(DeployMode(mode), profile, "$.programs[0]", master=True)
    assert caught.value.path == "$.programs[0].profile"
    if profile.master is not None:
        check_profile(DeployMode(mode), profile, "$.programs[0]", master=False)


def assignment(job: SparkJob) -> Assignment:
    return Assignment("r1", 1, Program(ProgramRef("default", "shop", "join"), job), {})


def test_what_a_deployment_could_not_know_is_checked_before_the_submission() -> None:
    job = SparkJob("/join.py", deploy_mode=DeployMode.CLUSTER)
    changed = with_profile(job, SparkProfile("big", secret_conf={"spark.hadoop.key": TOKEN}))
    with pytest.raises(ConfigurationError, match=r'^\$\.conf\["spark\.hadoop\.key"\]'):
        check_prepared(assignment(job), assignment(changed), "spark://there:7077")

    located = SparkJob("/cache/join.py", deploy_mode=DeployMode.CLUSTER)
    with pytest.raises(ConfigurationError, match=r"^\$\.main"):
        check_prepared(assignment(bundled(None)), assignment(located), "spark://there:7077")
    check_prepared(assignment(bundled(None)), assignment(located), "yarn")
