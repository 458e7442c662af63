"""Secrets, sizes, profiles and bundles: what is refused, with the path of the field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamsched.codec.schedules.schedule import program_from_json, program_to_json
from streamsched.codec.schedules.spark_needs import profile_from_json, profile_to_json
from streamsched.define.app import App
from streamsched.define.needs import secret
from streamsched.domain.errors import InvalidError
from streamsched.domain.programs.bundle import BundleFile, check_files
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.secret_rules import parse_rules, without_secrets
from streamsched.domain.programs.spark_needs import DriverSize, ExecutorSize, SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import EnqueueJob, HttpJob, PublishJob

FULL = {
    "namespace": "default",
    "application": "shop",
    "name": "join",
    "type": "spark",
    "main": "join.py",
    "arguments": [],
    "conf": {"spark.a": "1", "spark.b": {"secret": "env:B"}},
    "env": {"PLAIN": "x", "KEY": {"secret": "file:/run/secrets/a#key"}},
    "main_class": "com.acme.Join",
    "profile": "big",
    "py_files": ["lib.zip"],
    "packages": ["org.x:y_2.13:1.0"],
    "jars": ["a.jar"],
    "files": ["words.txt"],
    "archives": ["env.tar.gz#environment"],
    "driver": {"cores": 2, "memory": "2g"},
    "executors": {"instances": 3, "cores": 4, "memory": "512m"},
    "bundle": "0" * 64,
    "defaults": {},
}


def spark(**fields: object) -> SparkJob:
    plain = {"namespace": "default", "application": "shop", "name": "join", "type": "spark", "main": "join.py"}
    found = program_from_json({**plain, **fields}, "$.programs[0]").executable
    assert isinstance(found, SparkJob)
    return found


def test_json_of_a_program_with_all_needs_is_read_and_written() -> None:
    program = program_from_json(FULL)

    assert program_to_json(program) == FULL
    job = program.executable
    assert isinstance(job, SparkJob)
    assert job.needs.secret_conf == {"spark.b": Secret("env", "B")}
    assert job.needs.sizes() == {
        "spark.driver.cores": "2",
        "spark.driver.memory": "2g",
        "spark.executor.instances": "3",
        "spark.executor.cores": "4",
        "spark.executor.memory": "512m",
        "spark.cores.max": "12",
    }


def test_the_builder_makes_what_json_says() -> None:
    app = App("shop")
    app.spark(
        "join",
        main="join.py",
        conf={"spark.a": "1", "spark.b": secret("env:B")},
        env={"PLAIN": "x", "KEY": secret("file:/run/secrets/a#key")},
        main_class="com.acme.Join",
        profile="big",
        py_files=["lib.zip"],
        packages=["org.x:y_2.13:1.0"],
        jars=["a.jar"],
        files=["words.txt"],
        archives=["env.tar.gz#environment"],
        driver={"cores": 2, "memory": "2g"},
        executors={"instances": 3, "cores": 4, "memory": "512m"},
    )
    expected = program_from_json({**FULL, "bundle": None}).executable

    assert app._programs["join"].executable == expected


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"driver": {"memory": "2"}}, "$.programs[0].driver.memory"),
        ({"driver": {"memory": "100m"}}, "$.programs[0].driver.memory"),
        ({"driver": {"memory": "99999999999t"}}, "$.programs[0].driver.memory"),
        ({"driver": {"cores": 0}}, "$.programs[0].driver.cores"),
        ({"driver": {"core": 1}}, "$.programs[0].driver.core"),
        ({"executors": {"instances": 0}}, "$.programs[0].executors.instances"),
        ({"executors": {"cores": 10**9}}, "$.programs[0].executors.cores"),
        ({"executors": {"memory": "2gg"}}, "$.programs[0].executors.memory"),
        ({"packages": ["org.x:y"]}, "$.programs[0].packages[0]"),
        ({"jars": ["a.jar", "b,c.jar"]}, "$.programs[0].jars[1]"),
        ({"archives": ["a.zip#.."]}, "$.programs[0].archives[0]"),
        ({"requirements": "r.txt", "archives": ["a.zip#environment"]}, "$.programs[0].requirements"),
        ({"profile": "a b"}, "$.programs[0].profile"),
        ({"bundle": "abc"}, "$.programs[0].bundle"),
        ({"bundle": "0" * 64, "main": "../x.py"}, "$.programs[0].main"),
        ({"conf": {"spark.jars": "a"}, "jars": ["b.jar"]}, '$.programs[0].conf["spark.jars"]'),
        (
            {"conf": {"spark.executor.memory": "1g"}, "executors": {"memory": "2g"}},
            '$.programs[0].conf["spark.executor.memory"]',
        ),
        ({"conf": {"spark.ssl.keyPassword": {"secret": "env:A"}}}, '$.programs[0].conf["spark.ssl.keyPassword"]'),
        ({"conf": {"a": {"secret": "A"}}}, "$.programs[0].conf.a.secret"),
        ({"conf": {"a": {"secret": "env:A", "b": "c"}}}, "$.programs[0].conf.a.b"),
        ({"env": {"A": {"secret": "env:STREAMSCHED_TOKEN"}}}, "$.programs[0].env.A.secret"),
        ({"env": {"A": {"secret": "env:streamsched_token"}}}, "$.programs[0].env.A.secret"),
        ({"env": {"A": {"secret": "file:etc/x"}}}, "$.programs[0].env.A.secret"),
        ({"env": {"A": {"secret": "file:/run/../etc/x"}}}, "$.programs[0].env.A.secret"),
        ({"arguments": ["--p", "{secret:env:A}"]}, "$.programs[0].arguments[1]"),
    ],
)
def test_a_mistake_names_its_field(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        spark(**fields)

    assert refused.value.path == path


@pytest.mark.parametrize(
    "build",
    [
        lambda: PublishJob("event", {"a": "{secret:env:A}"}),  # type: ignore[arg-type]
        lambda: EnqueueJob("queue", data='{"a": "{secret:env:A}"}'),
        lambda: HttpJob("http://h", headers={"a": "{secret:x}"}),
        lambda: SparkNeeds(packages=("a:b:c:d",)),
        lambda: DriverSize(memory="x" * 10_000),
        lambda: ExecutorSize(instances=2**80),
    ],
)
def test_texts_that_are_stored_or_shown_may_hold_no_secret(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidError):
        build()


def test_an_http_program_lists_the_secrets_of_all_its_texts() -> None:
    job = HttpJob(
        f"https://h/{secret('env:A')}", headers={"X": f"Bearer {secret('env:B')}"}, body=f'{{"c": "{secret("env:C")}"}}'
    )

    found = {each.reference: path for each, path in job.secrets().items()}

    assert found == {"env:A": "$.url", "env:B": "$.headers.X", "env:C": "$.body"}


@pytest.mark.parametrize(
    ("namespace", "reference", "permitted"),
    [
        ("shop", "env:SHOP_A", True),
        ("other", "env:SHOP_A", False),
        ("shop", "env:OTHER", False),
        ("other", "file:/run/secrets/a", True),
        ("other", "file:/run/secrets/a#key", True),
        ("other", "file:/run/secretsx", False),
        ("other", "file:/etc/only", True),
        ("other", "file:/etc/only2", False),
        ("shop", "vault:kv/shop/db", True),
        ("shop", "vault:kv/other", False),
    ],
)
def test_rules_permit_what_they_name(namespace: str, reference: str, permitted: bool) -> None:
    rules = parse_rules("shop=env:SHOP_*, *=file:/run/secrets/, *=file:/etc/only, shop=vault:kv/shop/*")

    assert any(rule.permits(namespace, Secret.parse(reference)) for rule in rules) is permitted


@pytest.mark.parametrize("text", ["shop", "shop=env", "=env:A", "*=env:*", "*=env:STREAM*", "*=env:S*", "*=file:a/"])
def test_a_rule_that_permits_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        parse_rules(text)


def test_programs_inherit_no_variable_that_is_a_secret() -> None:
    environ = {"PATH": "/bin", "SHOP_A": "x", "STREAMSCHED_TOKEN": "y"}

    assert without_secrets(environ, parse_rules("shop=env:SHOP_*")) == {"PATH": "/bin"}


def test_a_profile_is_read_and_written() -> None:
    obj = {
        "master": "spark://h:7077",
        "conf": {"spark.a": "1", "spark.b": {"secret": "env:B"}},
        "driver": {"memory": "1g"},
        "executors": {"instances": 2},
    }

    assert profile_to_json(profile_from_json("big", obj)) == obj


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"conf": {"spark.master": "local"}}, '$.conf["spark.master"]'),
        ({"conf": {"spark.driver.memory": "2g"}, "driver": {"memory": "1g"}}, '$.conf["spark.driver.memory"]'),
        ({"conf": {"a b": "x"}}, "$.conf"),
        ({"master": " "}, "$.master"),
        ({"jars": []}, "$.jars"),
    ],
)
def test_a_mistake_in_a_profile_names_its_field(obj: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        profile_from_json("big", obj)

    assert refused.value.path == path


@pytest.mark.parametrize(
    "files",
    [
        [BundleFile("../x", 1)],
        [BundleFile("/x", 1)],
        [BundleFile("a//b", 1)],
        [BundleFile("a/./b", 1)],
        [BundleFile("a\\b", 1)],
        [BundleFile("a\nb", 1)],
        [BundleFile("x" * 300, 1)],
        [BundleFile("a", 1), BundleFile("a", 1)],
        [BundleFile("a", 1), BundleFile("a/b", 1)],
        [BundleFile("a", 2**62)],
        [BundleFile(f"f{n}", 0) for n in range(10_001)],
    ],
)
def test_files_that_a_bundle_may_not_have(files: list[BundleFile]) -> None:
    with pytest.raises(InvalidError):
        check_files(files, most_bytes=1000)
