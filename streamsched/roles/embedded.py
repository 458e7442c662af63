"""`streamsched dev`: an embedded PostgreSQL with the log, worker, launcher, timers, relay and API in one process.

All state is in one folder. After a crash at any time, also of PostgreSQL, the next start continues.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from streamsched.access.issuing import create_token
from streamsched.api.serving import bind, url_of
from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import StoredTokenText, TokenRequest, read_token
from streamsched.domain.addresses import LOOPBACK
from streamsched.domain.errors import StreamschedError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.programs.inherited_environment import ALL
from streamsched.ports.clock import Clock, SystemClock
from streamsched.process.files import write_atomically
from streamsched.process.supervision import run_until_signal
from streamsched.roles.role import Role, serve
from streamsched.store.access.tokens import TokenStore
from streamsched.store.connections import temporary_pool
from streamsched.store.runs.run_queries import RunQueries, RunRecord
from streamsched.store.server.data_archive import POSTGRES, ArchiveDescription, check_data, pack_folder, unpack_folder
from streamsched.store.server.data_place import move_logs
from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.folder_lock import folder_lock
from streamsched.store.server.revisions import revisions
from streamsched.store.server.schema import stored_revision
from streamsched.telemetry.logs import configure_logs
from streamsched.web.app import PREFIX
from streamsched.web.session import Sessions

log = structlog.get_logger()

#: Most runs listed when it stops.
SHOWN_RUNS: Final = 20
_ACTIVE: Final = (RunState.STARTING, RunState.RUNNING, RunState.SUSPENDED)

#: The file in the folder with the token of its commands.
TOKEN_FILE: Final = "token"

#: Placeholder for the database's URL until the embedded server has started.
_PLACEHOLDER = "postgresql://to-come"


@dataclass(frozen=True, slots=True)
class Started:
    """Information for the user when the scheduler has started.

    Attributes:
        page: URL of the pages, with a code that logs in once within some minutes.
        resumed: whether the folder had state of an earlier start.
        warnings: what will not work, and how to fix it.
        notices: what was changed in the folder at this start, since it was upgraded or moved here.
    """

    url: str
    page: str
    folder: Path
    resumed: bool
    warnings: tuple[str, ...]
    notices: tuple[str, ...] = ()


def run_dev(
    environ: Mapping[str, str],
    *,
    data_dir: Path,
    announce: Callable[[Started], None],
    announce_end: Callable[[Stopped], None] = lambda _: None,
    **options: object,
) -> None:
    """Runs everything in `data_dir` until SIGINT or SIGTERM, then stops everything including PostgreSQL.

    `announce` is called once, when the API answers; `announce_end` when everything but PostgreSQL has stopped.
    `options` are settings given on the command line, as in `Settings.from_env`.

    Raises:
        ConfigurationError: another process runs in this folder, the port is in use, or a setting is invalid; nothing
            was started.
        UnavailableError: PostgreSQL does not start.
    """
    folder = data_dir.expanduser().resolve()
    given = {
        "log_level": environ.get("STREAMSCHED_LOG_LEVEL") or "warning",
        "outgoing_networks": environ.get("STREAMSCHED_OUTGOING_NETWORKS") or LOOPBACK,
        "program_environment": environ.get("STREAMSCHED_PROGRAM_ENVIRONMENT") or ALL,  # of the person who started it
        **({} if environ.get("STREAMSCHED_PREPARED_DRIVERS") else {"prepared_drivers": 1}),
        **_present(options),
    }
    settings = Settings.from_env(environ, **given, database_url=_PLACEHOLDER, data_dir=folder)
    with ExitStack() as stack:
        stack.enter_context(folder_lock(folder))
        bound = stack.enter_context(bind(settings.api.host, settings.api.port))
        configure_logs(level=settings.log.level, style=settings.log.format, file=folder / "dev.log")
        postgres = folder / POSTGRES
        resumed = postgres.exists()
        stack.callback(stop_server, postgres)
        server = start_server(postgres)
        notices = [*_migrate(server.url), *move_logs(server.url, folder)]
        own = {"database_url": server.url, "data_dir": folder, "emit_url": url_of(bound)}
        pages = environ.get("STREAMSCHED_PAGES_URL") or url_of(bound)
        given = {"broker_url": server.url, "pages_url": pages, **given, **own}
        settings = Settings.from_env(environ, **given)
        page = url_of(bound) + asyncio.run(_first_page(settings, folder))
        stack.enter_context(_publish(folder, bound, settings))
        started = Started(url_of(bound), page, folder, resumed, tuple(_warnings(environ)), tuple(notices))
        for warning in started.warnings:
            log.info("dev.warning", warning=warning)
        run_until_signal(
            serve(
                settings,
                Role.ALL,
                environ=environ,
                name="embedded",
                bound=bound,
                ready=lambda: announce(started),
            )
        )
        announce_end(Stopped(folder, _active_runs(server.url)))
        log.info("dev.stopped")


def back_up(data_dir: Path, archive: Path) -> ArchiveDescription:
    """Writes the data folder into one file, while nothing runs in it.

    Raises:
        ConfigurationError: `streamsched dev` runs there.
        NotFoundError, ConflictError, OSError: as `pack_folder`.
    """
    folder = data_dir.expanduser().resolve()
    check_data(folder)
    with folder_lock(folder, instead="stop it first: a backup is of a stopped one"):
        stop_server(folder / POSTGRES)  # of a process that was killed
        return pack_folder(folder, archive, now=SystemClock().now())


def restore(archive: Path, data_dir: Path) -> ArchiveDescription:
    """Makes a data folder of an archive. Raises as `unpack_folder`."""
    return unpack_folder(archive, data_dir.expanduser().resolve())


@dataclass(frozen=True, slots=True)
class Stopped:
    """Information for the user when the scheduler has stopped.

    Attributes:
        runs: runs whose processes continue, newest first, at most `SHOWN_RUNS`; None when they could not be queried.
    """

    folder: Path
    runs: tuple[RunRecord, ...] | None


def _migrate(url: str) -> Iterator[str]:
    """Migrates the database unless it is at the newest schema, as at most starts: Alembic takes a while to import. Says
    so of one that was at an earlier schema.
    """
    before, newest = asyncio.run(_revision(url)), revisions().newest
    if before in newest:
        return
    from streamsched.store.server.migrate import migrate  # noqa: PLC0415

    migrate(url)
    if before is not None:
        yield f"its data was upgraded from schema {before} to {', '.join(newest)}; there is no way back"


async def _revision(url: str) -> str | None:
    async with temporary_pool(url) as pool:
        return await stored_revision(pool)


async def _first_page(settings: Settings, folder: Path) -> str:
    """The path and query of the pages. With tokens it logs in once the owner of the folder's token, a token of an
    admin in a file that only the folder's owner reads; writes another one unless that one is valid.
    """
    if settings.api.access != "tokens":
        return f"{PREFIX}/"
    file, clock = folder / TOKEN_FILE, SystemClock()
    async with temporary_pool(settings.database_url) as pool:
        tokens = TokenStore(pool)
        known = read_token(file.read_text().strip()) if file.is_file() else None
        if not isinstance(known, StoredTokenText) or not await _is_valid(tokens, known, clock):
            request = TokenRequest(f"dev-{secrets.token_hex(3)}", (Grant(role=AccessRole.ADMIN),))
            _, text = await create_token(tokens, clock, request, by="streamsched dev")
            with write_atomically(file, private=True) as new:
                new.write(f"{text}\n".encode())
            known = read_token(text)
        assert isinstance(known, StoredTokenText)
        return f"{PREFIX}/login?code={await Sessions(tokens, clock).code(known.id)}"


async def _is_valid(tokens: TokenStore, token: StoredTokenText, clock: Clock) -> bool:
    found = await tokens.find(token.id)
    return found is not None and found.digest == token.digest and not found.record.refusal_reason(clock.now())


@contextmanager
def _publish(folder: Path, bound: socket.socket, settings: Settings) -> Iterator[None]:
    """Writes `dev.json` while it runs: the API's URL for clients, the settings for administration commands."""
    note = folder / "dev.json"
    known = {"database_url": settings.database_url, "broker_url": settings.broker_url, "shards": settings.shards}
    with write_atomically(note, private=True) as file:
        file.write(json.dumps({"url": url_of(bound), "pid": os.getpid(), "settings": known}).encode())
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def _active_runs(dsn: str) -> tuple[RunRecord, ...] | None:
    """Runs with their own process, which continues without this one."""

    async def query() -> tuple[RunRecord, ...]:
        async with temporary_pool(dsn) as pool:
            return tuple(await RunQueries(pool).list_recent(states=_ACTIVE, limit=SHOWN_RUNS))

    try:
        return asyncio.run(query())
    except StreamschedError as exc:
        log.warning("dev.runs_unknown", reason=str(exc))
        return None


def _warnings(environ: Mapping[str, str]) -> Iterator[str]:
    """Missing prerequisites of this machine."""
    home = environ.get("JAVA_HOME")
    if shutil.which("java", path=environ.get("PATH")) is None and not (home and (Path(home) / "bin/java").exists()):
        yield (
            "no Java found, so Spark programs will fail: install Java 17 "
            "(Debian: openjdk-17-jre-headless), or set JAVA_HOME"
        )


def _present(options: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}
