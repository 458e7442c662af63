"""The Kubernetes component for Dapr's jobs has settings, ports and names that exist."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import typer
import yaml

from streamsched.cli.main import make_app
from streamsched.config import Settings
from streamsched.setting_values import PREFIX, variable, variables_of

FOLDER: Final = Path(__file__).parents[2] / "compose" / "kubernetes"
SETTINGS: Final = {variable(each.name): each.default for each in variables_of(Settings)}
FILES: Final = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((FOLDER / "dapr").glob("*.yaml"))}
ENDPOINT: Final = FILES["endpoint"]["spec"]["template"]["spec"]


def container(spec: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in spec["containers"] if each["name"] == name]
    return found


def test_the_component_names_its_files() -> None:
    component = FILES["kustomization"]
    named = {*component["resources"], *(each["path"] for each in component["patches"])}

    assert component["kind"] == "Component"
    assert named == {f"{name}.yaml" for name in FILES} - {"kustomization.yaml"}


def test_settings_exist_and_the_endpoint_is_a_command() -> None:
    endpoint = container(ENDPOINT, "endpoint")
    launcher = container(FILES["launcher"]["spec"]["template"]["spec"], "launcher")
    own = {each["name"]: each.get("value") for each in (*endpoint["env"], *launcher["env"])}
    command: Any = typer.main.get_command(make_app())
    for word in endpoint["args"]:
        command = command.commands[word]

    assert {name for name in own if name.startswith(PREFIX)} <= SETTINGS.keys()
    assert SETTINGS["STREAMSCHED_DAPR_HTTP_PORT"] in endpoint["readinessProbe"]["exec"]["command"][-1]
    assert SETTINGS["STREAMSCHED_DAPR_HOST"] == "127.0.0.1"
    (jobs,) = container(ENDPOINT, "app")["ports"]
    assert own["STREAMSCHED_DAPR_APP"] == f"grpc://$(POD_IP):{jobs['containerPort']}"


def test_the_patch_is_one_of_the_launcher_and_the_service_leads_to_its_port() -> None:
    base = next(yaml.safe_load_all((FOLDER / "launcher.yaml").read_text()))
    patch, service = FILES["launcher"], FILES["scheduler"]["spec"]
    patched = container(patch["spec"]["template"]["spec"], "launcher")
    (port,) = patched["ports"]
    (served,) = service["ports"]

    assert (patch["kind"], patch["metadata"]) == (base["kind"], base["metadata"])
    assert container(base["spec"]["template"]["spec"], "launcher")
    assert service["selector"] == base["spec"]["template"]["metadata"]["labels"]
    assert service["clusterIP"] == "None", "a sidecar needs the address of each launcher"
    assert (served["targetPort"], served["port"]) == (port["name"], port["containerPort"])
    assert {"name": PREFIX + "DAPR_SCHEDULER", "value": f"$(POD_IP):{served['port']}"} in patched["env"]


def test_the_pod_is_restricted() -> None:
    assert ENDPOINT["securityContext"]["runAsNonRoot"] is True
    assert ENDPOINT["enableServiceLinks"] is False
    for each in ENDPOINT["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_kustomize_renders_the_component(tmp_path: Path) -> None:
    """Where kubectl is installed."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    with (tmp_path / "kubernetes" / "kustomization.yaml").open("a") as file:
        file.write("components: [dapr]\n")
    done = subprocess.run((kubectl, "kustomize", tmp_path / "kubernetes"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rendered = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}

    spec = rendered["Deployment", "streamsched-launcher"]["spec"]["template"]["spec"]
    launcher = container(spec, "launcher")
    names = [each["name"] for each in launcher["env"]]
    assert names.index("POD_IP") < names.index(PREFIX + "DAPR_SCHEDULER"), "it refers to the one before"
    assert {each["containerPort"] for each in launcher["ports"]} == {8766, 8767, 50006}
    assert ("Service", "streamsched-dapr-scheduler") in rendered
    images = [each["image"] for each in rendered["Deployment", "orders"]["spec"]["template"]["spec"]["containers"]]
    assert images == ["registry.example.org/orders", "registry.example.org/streamsched:latest"]
