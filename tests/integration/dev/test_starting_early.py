"""Roles started before what they stand on wait for it; a command at a terminal says at once that it is away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.migrate import migrate
from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

ROLE = (sys.executable, "-c", "from streamsched.cli.main import main; main()")


@pytest.fixture
def folder(tmp_path: Path) -> DevProcess:
    dev = DevProcess(tmp_path)
    dev.state.mkdir()
    (dev.state / "dev.log").write_text("")
    return dev


@contextmanager
def role(name: str, folder: DevProcess, environ: dict[str, str]) -> Iterator[Path]:
    """A role as a process, ended in good order; gives its log."""
    said = folder.folder / f"{name}.log"
    with said.open("w") as log:
        process = subprocess.Popen(
            (*ROLE, name), cwd=folder.folder, env=folder.environ(**environ), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield said
        finally:
            process.terminate()
            assert process.wait(timeout=60) == 0, said.read_text()[-2000:]


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.timeout(200)
def test_a_worker_started_before_kafka_waits_for_it(
    kafka: str, database: str, folder: DevProcess, tmp_path: Path
) -> None:
    """Beside the session's broker, whose jars are there by now."""
    cluster = Cluster(tmp_path / "kafka", Shape(free_addresses(1)))
    environ: dict[str, Any] = {"STREAMSCHED_DATABASE_URL": database, "STREAMSCHED_BROKER_URL": cluster.url}
    try:
        with role("worker", folder, environ) as log:
            asked = folder.run("topics", "check", **environ)
            assert (asked.code, "Kafka does not answer" in asked.err) == (5, True), asked
            folder.until(lambda: "role.waits" in log.read_text())
            assert "role.started" not in log.read_text()

            cluster.start()

            folder.until(lambda: "shard.started" in log.read_text())
            assert log.read_text().count("role.waits") == 1
    finally:
        cluster.kill()


@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_a_worker_started_before_postgresql_waits_for_it(folder: DevProcess, tmp_path: Path) -> None:
    with_schema = tmp_path / "pg"
    try:
        url = start_server(with_schema).url
        migrate(url)
        stop_server(with_schema)
        environ: dict[str, Any] = {"STREAMSCHED_DATABASE_URL": url}
        with role("worker", folder, environ) as log:
            asked = folder.run("topics", "check", **environ)
            assert (asked.code, "PostgreSQL" in asked.err) == (5, True), asked
            folder.until(lambda: "role.waits" in log.read_text())

            start_server(with_schema)

            folder.until(lambda: "shard.started" in log.read_text())
    finally:
        stop_server(with_schema)


@pytest.mark.timeout(200)
def test_roles_started_before_the_schema_wait_for_it(folder: DevProcess, empty_database: str) -> None:
    """As a shell starts them with `streamsched migrate && streamsched worker & streamsched launcher & …`."""
    environ: dict[str, Any] = {"STREAMSCHED_DATABASE_URL": empty_database, "STREAMSCHED_API_PORT": "0"}
    with ExitStack() as held:
        roles = [held.enter_context(role(name, folder, environ)) for name in ("worker", "launcher", "api")]
        folder.until(lambda: all("role.waits" in log.read_text() for log in roles))
        for log in roles:
            said = log.read_text()
            assert "has no schema yet; run `streamsched migrate`" in said
            assert "role.started" not in said

        assert folder.run("migrate", **environ).code == 0

        folder.until(lambda: all("role.started" in log.read_text() for log in roles))
        folder.until(lambda: "shard.started" in roles[0].read_text())
        assert all(log.read_text().count("role.waits") == 1 for log in roles)


@pytest.mark.timeout(100)
def test_a_role_that_waits_for_the_schema_ends_when_it_is_asked_to(folder: DevProcess, empty_database: str) -> None:
    with role("launcher", folder, {"STREAMSCHED_DATABASE_URL": empty_database}) as log:
        folder.until(lambda: "role.waits" in log.read_text())
