"""What executes on launchers is deployed only by who may: every way in, refused without `shell`, accepted with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.config import Settings
from streamsched.dialects.airflow.codec.dag_file import dags_from_source
from streamsched.dialects.cdap.codec.bulk import schedules_from_json
from streamsched.dialects.crontab.codec import crontab_from_text
from streamsched.dialects.oozie.codec.coordinator import coordinator_from_xml
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.programs.spark_needs import SparkNeeds
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import Assignment
from streamsched.roles.api import api_services
from streamsched.roles.services import Services, open_services
from streamsched.spark.needs.preparation import Preparation
from streamsched.store.programs.profiles import ProfileStore
from tests.integration.api.test_access import token
from tests.support.api_routes import api_routes
from tests.support.described_answers import check_answer
from tests.support.relaying import relaying

DIGEST: Final = "a" * 64
GOLDEN: Final = Path(__file__).parents[2] / "golden" / "moving"
SPARK: Final[dict[str, Any]] = {"type": "spark", "main": "hdfs://lake/x.py"}
CLUSTER: Final[dict[str, Any]] = {**SPARK, "deploy_mode": "cluster", "master": "yarn"}
#: Programs that execute something on a launcher, by what does it, with the field that is named.
DOORS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "bash": ({"type": "bash", "command": "id"}, "command"),
    "python": ({"type": "python", "target": "os:getcwd"}, "target"),
    "a local main": ({"type": "spark", "main": "x.py"}, "deploy_mode"),
    "a URL as main": ({"type": "spark", "main": "https://evil.example/x.py"}, "deploy_mode"),
    "a module": ({"type": "spark", "pymodule": "tasks.flow"}, "deploy_mode"),
    "a driver beside the launcher, executors in a cluster": ({**SPARK, "master": "spark://m:7077"}, "deploy_mode"),
    "requirements": ({**SPARK, "requirements": "/srv/requirements.txt"}, "deploy_mode"),
    "packages": ({**SPARK, "packages": ["a:b:1"]}, "deploy_mode"),
    "options of the driver's JVM": (
        {**SPARK, "conf": {"spark.driver.extraJavaOptions": "-javaagent:x"}},
        "deploy_mode",
    ),
    "variables": ({**SPARK, "env": {"LD_PRELOAD": "/x.so"}}, "deploy_mode"),
    "Connect": ({"type": "spark", "main": "/x.py", "deploy_mode": "connect"}, "deploy_mode"),
    "packages for YARN": ({**CLUSTER, "packages": ["a:b:1"]}, "packages"),
    "packages in a setting": ({**CLUSTER, "conf": {"spark.jars.packages": "a:b:1"}}, 'conf["spark.jars.packages"]'),
    "Python files in a setting": (
        {**CLUSTER, "conf": {"spark.submit.pyFiles": "/x.py"}},
        'conf["spark.submit.pyFiles"]',
    ),
    "a keytab": ({**CLUSTER, "conf": {"spark.kerberos.keytab": "/k"}}, 'conf["spark.kerberos.keytab"]'),
    "a file of the launcher": ({**CLUSTER, "files": ["/etc/passwd"]}, "files[0]"),
    "a jar by URL": ({**CLUSTER, "jars": ["https://evil.example/x.jar"]}, "jars[0]"),
    "an option as main": ({**CLUSTER, "main": "--conf=a=b://c"}, "main"),
}


@pytest.fixture
async def services(database: str) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database)) as services, relaying(services):
        yield services


@pytest.fixture
async def client(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()), raise_app_exceptions=False)
    hooks = {"response": [check_answer]}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", event_hooks=hooks) as client:
        yield client


@pytest.fixture
async def plain(services: Services) -> dict[str, str]:
    """The header of a token of a developer in `sales` who may use any master."""
    return await token(services, "plain", Grant(role=AccessRole.DEVELOPER, namespace="sales", masters=("*",)))


@pytest.fixture
async def shell(services: Services) -> dict[str, str]:
    """The same, with the permission `shell`."""
    grant = Grant(role=AccessRole.DEVELOPER, namespace="sales", shell=True, masters=("*",))
    listening = Grant(role=AccessRole.VIEWER, namespace="default")  # imports name datasets of that namespace
    return await token(services, "shell", grant, listening)


async def test_a_program_that_executes_on_launchers_needs_shell(
    client: httpx.AsyncClient, plain: dict[str, str], shell: dict[str, str]
) -> None:
    for definition, path in DOORS.values():
        for name, body in {
            "plain": {"programs": [{"name": "p", **definition}]},
            "graph": {"programs": [{"name": "p", **definition}], "tasks": {"p": {"job_id": "{date}"}}},
        }.items():
            for params in ({"dry_run": True}, {}):
                url = f"/v1/apps/sales/{name}"
                refused = await client.put(url, json=body, params=params, headers=plain)
                assert refused.status_code == 403, refused.text
                assert f"$.programs[0].{path} " in refused.json()["detail"]
                assert "no `shell`" in refused.json()["detail"]
            accepted = await client.put(url, json=body, headers=shell)
            assert accepted.status_code == 200, accepted.text


@pytest.mark.parametrize(
    "definition",
    [
        CLUSTER,
        {**CLUSTER, "env": {"LD_PRELOAD": "/x.so"}, "conf": {"spark.driver.extraJavaOptions": "-javaagent:x"}},
        {**CLUSTER, "main": "/srv/x.py", "master": "spark://m:7077", "packages": ["a:b:1"]},
        {**CLUSTER, "main": "local:///opt/x.py", "master": "k8s://https://api:6443"},
        {"type": "http", "url": "https://example.com/{day}"},
    ],
)
async def test_a_tenant_without_shell_has_cluster_mode(
    client: httpx.AsyncClient, plain: dict[str, str], definition: dict[str, Any]
) -> None:
    body = {"programs": [{"name": "p", **definition}]}
    answer = await client.put("/v1/apps/sales/a", json=body, headers=plain)
    assert answer.status_code == 200, answer.text


async def test_what_is_imported_from_other_systems_needs_the_same(
    client: httpx.AsyncClient, plain: dict[str, str], shell: dict[str, str]
) -> None:
    found = [
        schedules_from_json((GOLDEN / "cdap.json").read_bytes()),
        coordinator_from_xml(
            (GOLDEN / "coordinator.xml").read_bytes(), None, properties={"n": "2", "end": "2010-01-01T00:00Z"}
        ),
        dags_from_source((GOLDEN / "dag.py.txt").read_bytes(), namespace="sales"),
        crontab_from_text((GOLDEN / "crontab").read_bytes(), AppRef("sales", "moved")),
    ]
    apps = [app for imported in found for app in imported.apps if "bash" in str(app) or "spark" in str(app)]
    assert len(apps) >= len(found)
    for number, app in enumerate(apps):
        body = {name: value for name, value in app.items() if name not in ("namespace", "application")}
        url = f"/v1/apps/sales/moved{number}"
        refused = await client.put(url, json=body, headers=plain)
        assert (refused.status_code, "no `shell`" in refused.text) == (403, True), refused.text
        accepted = await client.put(url, json=body, headers=shell)
        assert accepted.status_code == 200, accepted.text


async def test_a_profile_set_without_shell_executes_nothing_on_launchers(
    client: httpx.AsyncClient, services: Services, plain: dict[str, str], shell: dict[str, str]
) -> None:
    profile, agent = (
        "/v1/namespaces/sales/spark-profiles/big",
        {"conf": {"spark.driver.extraJavaOptions": "-javaagent:x"}},
    )
    ivy = {"conf": {"spark.jars.ivySettings": "/x.xml"}}
    in_client = {"programs": [{"name": "p", **SPARK, "profile": "big"}]}
    in_cluster = {"programs": [{"name": "q", **CLUSTER, "profile": "big"}]}

    async def status(header: dict[str, str], path: str, body: dict[str, Any]) -> int:
        answer = await client.put(path, json=body, headers=header)
        assert answer.status_code != 403 or "'big' was set without" in answer.text, answer.text
        return answer.status_code

    assert await status(shell, profile, ivy) == 200
    assert await status(plain, "/v1/apps/sales/a", in_cluster) == 200  # who set it is trusted
    assert await status(shell, "/v1/apps/sales/b", in_client) == 200
    assert await status(plain, profile, agent) == 200
    assert (await client.get(profile, headers=plain)).json()["shell"] is False
    assert await status(plain, "/v1/apps/sales/a", in_cluster) == 200
    assert await prepared(services, DeployMode.CLUSTER) == ""
    assert "so only programs with deploy_mode cluster may use it" in await prepared(services, DeployMode.CLIENT)
    assert await status(plain, profile, ivy) == 200
    assert await status(plain, "/v1/apps/sales/a", in_cluster) == 403
    assert "its setting spark.jars.ivySettings is not among" in await prepared(services, DeployMode.CLUSTER)
    assert await status(shell, profile, ivy) == 200
    assert [await prepared(services, mode) for mode in (DeployMode.CLUSTER, DeployMode.CLIENT)] == ["", ""]


async def prepared(services: Services, mode: DeployMode) -> str:
    """Why a run of a program that was deployed before, and names the profile, fails; empty when it is prepared."""
    job = SparkJob("hdfs://lake/x.py", master="yarn", needs=SparkNeeds(profile="big"), deploy_mode=mode)
    assignment = Assignment("r", 1, Program(ProgramRef("sales", "b", "p"), job), {})
    try:
        await Preparation(profiles=ProfileStore(services.pool)).prepare(assignment)
    except ConfigurationError as exc:
        return str(exc)
    return ""


_TEMPLATES: Final[list[tuple[dict[str, Any], str]]] = [
    ({"type": "spark", "main": "prog/{job}.py"}, "main"),
    ({"type": "spark", "main": "x.py", "uris": ["{a}"]}, "uris[0]"),
    ({"type": "spark", "main": "x.py", "py_files": ["a", "{a}.py"]}, "py_files[1]"),
    ({"type": "spark", "main": "x.py", "jars": ["{a}"]}, "jars[0]"),
    ({"type": "spark", "main": "x.py", "files": ["{a}"]}, "files[0]"),
    ({"type": "spark", "main": "x.py", "archives": ["x#{a}"]}, "archives[0]"),
    ({"type": "spark", "main": "x.py", "requirements": "{a}"}, "requirements"),
    ({"type": "spark", "pymodule": "tasks.x", "folder": "{a}"}, "folder"),
    ({"type": "python", "target": "a:b", "folder": "/srv/{a}"}, "folder"),
    ({"type": "http", "url": "https://{host}/x"}, "url"),
    ({"type": "http", "url": "https://example.com:{port}/x"}, "url"),
    ({"type": "http", "url": "{secret:env:BASE}{rest}/x"}, "url"),
]


async def test_names_of_files_and_hosts_are_no_templates(client: httpx.AsyncClient, shell: dict[str, str]) -> None:
    for program, path in _TEMPLATES:
        body = {"programs": [{"name": "p", **program}]}
        answer = await client.put("/v1/apps/sales/a", json=body, headers=shell)
        assert (answer.status_code, answer.json().get("path")) == (400, f"$.programs[0].{path}")


async def test_the_check_up_counts_what_executes_on_launchers(
    client: httpx.AsyncClient, services: Services, shell: dict[str, str]
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    programs = [{"name": f"p{at}", **each} for at, (each, _) in enumerate(DOORS.values())]
    programs += [{"name": "http", "type": "http", "url": "https://example.com/x"}]
    beside = sum("deploy_mode" not in each or each["deploy_mode"] == "connect" for each, _ in DOORS.values())
    for app in ("a", "b"):
        answer = await client.put(f"/v1/apps/sales/{app}", json={"programs": programs}, headers=shell)
        assert answer.status_code == 200, answer.text
    found = (await client.get("/v1/admin/checks", headers=admin)).json()["findings"]
    said = next(each for each in found if each["check"] == "execution on launchers")
    assert said["found"].startswith(f"{2 * beside} programs ({2 * beside} in sales)")
