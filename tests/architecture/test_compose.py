"""The compose file names commands and settings that exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from fastapi.routing import APIRoute
from streamsched_brokers.kafka.address import Address

from compose.kafka.distribution import version
from streamsched.api import health
from streamsched.bootstrap import Role
from streamsched.config import PREFIX, Settings

FOLDER = Path(__file__).parents[2] / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
KAFKA: dict[str, Any] = yaml.safe_load((FOLDER / "kafka.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "streamsched"}


def test_every_role_has_a_service() -> None:
    commands = {service["command"] for service in OURS.values() if "entrypoint" not in service}

    assert commands == {"migrate", *(role for role in Role if role is not Role.ALL)}


def test_every_setting_is_one_we_read() -> None:
    read = {PREFIX + field.name.upper() for field in fields(Settings)} | {"STREAMSCHED_EMIT_URL"}

    for name, service in OURS.items():
        assert set(service["environment"]) <= read, name


def test_every_role_is_asked_how_it_is_where_it_answers() -> None:
    paths = {route.path for route in health.router.routes if isinstance(route, APIRoute)}

    for name in (role for role in Role if role is not Role.ALL):
        asked = OURS[name]["healthcheck"]["test"][-1]
        port, path = re.search(r"http://127\.0\.0\.1:(\d+)(/[a-z/]+)", asked).groups()  # type: ignore[union-attr]
        assert (port, path in paths) == (OURS[name]["environment"]["STREAMSCHED_HEALTH_PORT"], True)


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
