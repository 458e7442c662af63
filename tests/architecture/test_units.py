"""systemd units, Kubernetes manifests, the YARN service and the image run the roles that exist, with settings that
exist, not as root.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from streamsched.api import health
from streamsched.config import ApiSettings, Settings
from streamsched.roles.role import Role
from streamsched.setting_values import PREFIX, variable, variables_of

FOLDER: Final = Path(__file__).parents[2] / "compose"
UNITS: Final = sorted((FOLDER / "systemd").glob("*.service"))
SETTINGS: Final = {variable(each.name) for each in variables_of(Settings)}
ROLES: Final = {role.value for role in Role if role is not Role.ALL}
PROBES: Final = {route.path for route in health.routes}

KUSTOMIZATION: Final = yaml.safe_load((FOLDER / "kubernetes" / "kustomization.yaml").read_text())
OBJECTS: Final[list[dict[str, Any]]] = [
    document
    for name in KUSTOMIZATION["resources"]
    for document in yaml.safe_load_all((FOLDER / "kubernetes" / name).read_text())
]
PODS: Final = {
    each["metadata"]["name"]: each["spec"]["template"] for each in OBJECTS if "template" in each.get("spec", {})
}
YARN: Final[dict[str, Any]] = json.loads((FOLDER / "yarn" / "Yarnfile.json").read_text())
LITERALS: Final = dict(each.split("=", 1) for each in KUSTOMIZATION["configMapGenerator"][0]["literals"])


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit.read_text(), flags=re.MULTILINE)


def test_every_role_has_a_unit() -> None:
    assert {values(unit, "ExecStart")[0].split()[-1] for unit in UNITS} == ROLES


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_sets_what_is_read_and_is_not_root(unit: Path) -> None:
    assert set(re.findall(r"STREAMSCHED_[A-Z_]+", unit.read_text())) <= SETTINGS
    assert values(unit, "User") == ["streamsched"]
    assert values(unit, "NoNewPrivileges") == ["yes"]
    assert values(unit, "Restart") == ["always"]


def test_only_the_launcher_leaves_its_children_alone() -> None:
    """Runs outlive their launcher."""
    assert [unit.name for unit in UNITS if values(unit, "KillMode") == ["process"]] == ["streamsched-launcher@.service"]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Where systemd is installed; the program that a unit starts is replaced with one that exists."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    copies = [tmp_path / unit.name.replace("@", "@1") for unit in UNITS]
    for unit, copy in zip(UNITS, copies, strict=True):
        text = unit.read_text().replace("/opt/streamsched/bin/streamsched", shutil.which("true") or "/bin/true")
        copy.write_text(text.replace("/opt/streamsched/README.md", str(FOLDER / "README.md")))

    done = subprocess.run((analyze, "verify", *copies), capture_output=True, text=True, check=False)

    wrong = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "streamsched-" in line]
    assert wrong == []


def test_every_role_has_pods_and_the_schema_a_job() -> None:
    commands = {pod["spec"]["containers"][0]["args"][0] for pod in PODS.values()}

    assert commands == {*ROLES, "migrate"}


def test_the_settings_of_pods_exist() -> None:
    own = {
        each["name"]
        for pod in PODS.values()
        for container in pod["spec"]["containers"]
        for each in container.get("env", ())
        if each["name"].startswith(PREFIX)
    }

    assert LITERALS.keys() | own <= SETTINGS


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_restricted(name: str) -> None:
    """As the security standard `restricted` requires, and with nothing that Kubernetes would add to our variables."""
    spec = PODS[name]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["enableServiceLinks"] is False
    for container in spec["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["data"] == LITERALS["STREAMSCHED_DATA_DIR"]
        assert mounts.keys() == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("name", [name for name in PODS if name != "streamsched-migrate"])
def test_a_pod_is_asked_how_it_is_where_it_answers(name: str) -> None:
    (container,) = PODS[name]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert str(ports["health"]) == LITERALS["STREAMSCHED_HEALTH_PORT"]
    for kind in ("readinessProbe", "livenessProbe"):
        asked = container[kind]["httpGet"]
        assert (asked["path"] in PROBES, asked["port"]) == (True, "health")


def test_selectors_select_pods() -> None:
    labels = [pod["metadata"]["labels"] for pod in PODS.values()]
    selectors = [each["spec"]["selector"] for each in OBJECTS if "selector" in each.get("spec", {})]

    assert len(selectors) == 7
    for selector in selectors:
        assert selector.get("matchLabels", selector) in labels


def test_the_service_leads_to_the_api_under_the_name_that_runs_use() -> None:
    (service,) = [each for each in OBJECTS if each["kind"] == "Service"]
    (container,) = PODS["streamsched-api"]["spec"]["containers"]
    (port,) = service["spec"]["ports"]
    assert LITERALS["STREAMSCHED_EMIT_URL"] == f"http://{service['metadata']['name']}:{port['port']}"
    default = ApiSettings().port
    assert {"name": port["targetPort"], "containerPort": default} in container["ports"]


def test_kustomize_renders_the_manifests() -> None:
    """Where kubectl is installed."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return
    done = subprocess.run((kubectl, "kustomize", FOLDER / "kubernetes"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rendered = list(yaml.safe_load_all(done.stdout))

    assert len(rendered) == len(OBJECTS) + 1  # the settings
    (settings,) = [each for each in rendered if each["kind"] == "ConfigMap"]
    references = {
        source["configMapRef"]["name"]
        for each in rendered
        if "template" in each.get("spec", {})
        for source in each["spec"]["template"]["spec"]["containers"][0]["envFrom"]
        if "configMapRef" in source
    }
    assert references == {settings["metadata"]["name"]}


def test_the_image_is_not_root() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", text, flags=re.MULTILINE)
    pods = {str(pod["spec"]["securityContext"]["runAsUser"]) for pod in PODS.values()}

    assert users == ["10001:10001"]
    assert pods == {"10001"}
    assert text.index("USER 10001") > max(found.start() for found in re.finditer(r"^RUN ", text, flags=re.MULTILINE))


def test_every_role_is_a_component_of_the_yarn_service() -> None:
    names = {each["name"] for each in YARN["components"]}

    assert names == ROLES
    for each in YARN["components"]:
        words = each["launch_command"].partition(" exec ")[2].split()
        assert words[:2] == ["${INSTALLATION}/bin/streamsched", each["name"]]
        assert each["restart_policy"] == "ALWAYS"


def test_the_yarn_service_sets_what_is_read_and_nothing_secret() -> None:
    own = {name for name in YARN["configuration"]["env"] if name.startswith(PREFIX)}

    assert own <= SETTINGS
    assert not own & {"STREAMSCHED_DATABASE_URL", "STREAMSCHED_BROKER_URL"}


def test_the_commands_for_yarn_are_those_that_are_tried() -> None:
    written = re.findall(r"^yarn app (-[a-z]+)", (FOLDER / "yarn" / "README.md").read_text(), flags=re.MULTILINE)
    tried = re.findall(r"\.app\(\s*\"(-[a-z]+)\"", (FOLDER.parent / "tests/faults/yarn_roles.py").read_text())

    assert set(written) <= {*tried, "-status"}
    assert len(set(written)) >= 4
