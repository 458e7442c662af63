"""The compose file names commands and settings that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from streamsched_brokers.kafka.address import Address

from compose.kafka.distribution import version
from streamsched.api import health
from streamsched.config import Settings
from streamsched.roles.role import Role
from streamsched.setting_values import variable, variables_of

FOLDER = Path(__file__).parents[2] / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
KAFKA: dict[str, Any] = yaml.safe_load((FOLDER / "kafka.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "streamsched"}


def test_every_role_has_a_service() -> None:
    commands = {service["command"] for service in OURS.values() if "entrypoint" not in service}

    assert commands == {"migrate", *(role for role in Role if role is not Role.ALL)}


def test_every_setting_is_one_we_read() -> None:
    read = {variable(each.name) for each in variables_of(Settings)}

    for name, service in OURS.items():
        assert set(service["environment"]) <= read, name


def test_every_role_is_asked_how_it_is_where_it_answers() -> None:
    paths = {route.path for route in health.routes}

    for name in (role for role in Role if role is not Role.ALL):
        asked = OURS[name]["healthcheck"]["test"][-1]
        port, path = re.search(r"http://127\.0\.0\.1:(\d+)(/[a-z/]+)", asked).groups()  # type: ignore[union-attr]
        assert (port, path in paths) == (OURS[name]["environment"]["STREAMSCHED_HEALTH_PORT"], True)


def commands(start: str) -> list[list[str]]:
    """Those of the README that begin so, split as a shell does; in code blocks and in the running text."""
    found = re.findall(rf"(?:^|`)({start} [^`\n]+)", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)
    return [shlex.split(each, comments=True) for each in found]


def test_commands_of_the_readme_find_the_compose_file_from_the_root() -> None:
    asked = commands("docker compose")

    assert len(asked) > 4
    for words in asked:
        assert words[2:4] == ["--file", "compose/compose.yaml"], words


def test_files_that_the_readme_names_inside_a_container_lie_on_volumes_of_every_role() -> None:
    inside = [words[words.index("exec") + 1 :] for words in commands("docker compose") if "exec" in words]
    named = {word.rpartition("=")[2] for words in inside for word in words if "/" in word.rpartition("=")[2]}

    assert named == {"/data/flights", "/examples/flights/app.py", "/examples/flights/land.py"}
    for name in (role for role in Role if role is not Role.ALL):
        mounts = dict(volume.split(":")[1::-1] for volume in OURS[name]["volumes"])
        for path in map(Path, named):
            where = next(mount for mount in mounts if path.is_relative_to(mount))
            ours = FOLDER / mounts[where] / path.relative_to(where)
            assert ours.is_file() or mounts[where] == "data", path


def test_whatever_a_service_waits_for_is_there() -> None:
    for service in COMPOSE["services"].values():
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])


def test_on_kafka_every_role_has_the_log_of_three_brokers_that_are_there() -> None:
    roles = {name: service for name, service in KAFKA["services"].items() if name in OURS}
    brokers = KAFKA["services"].keys() - roles.keys()

    assert roles.keys() == {role for role in Role if role is not Role.ALL}
    for service in roles.values():
        address = Address.parse(service["environment"]["STREAMSCHED_BROKER_URL"])
        assert {server.partition(":")[0] for server in address.servers} == brokers == service["depends_on"].keys()
    assert {KAFKA["services"][name]["image"] for name in brokers} == {f"apache/kafka:{version()}"}
