"""Commands for administration.

`topics`, `resync`, `reshard` and `state export|import` access the log and PostgreSQL directly, whether or not other
processes run. They are configured by `STREAMSCHED_*`, or by the `streamsched dev` of this folder. `doctor`, `top`,
`dlq` and `state show` use the API instead when its URL is given (`--url`, `STREAMSCHED_URL`) or no database is
configured. `--direct` makes them always access log and database.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeVar
from urllib.parse import urlsplit

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import full_name, short_name
from streamsched.cli.output import (
    Format,
    FormatOption,
    console,
    escape_text,
    print_answer,
    print_record,
    print_structured,
    print_table,
)
from streamsched.cli.server import UrlOption, ask, find_url, folder_here
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.process.files import sync_folder, write_atomically

if TYPE_CHECKING:
    from streamsched.admin.installation import Installation
    from streamsched.admin.topics import TopicReport
    from streamsched.config import Settings

_T = TypeVar("_T")

#: Exit code of checks that found a problem.
WRONG: Final = 1
_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}
DirectOption = Annotated[
    bool,
    typer.Option(
        "--direct", help="Read database (STREAMSCHED_DATABASE_URL) and log directly instead of using the API."
    ),
]


def topics_commands() -> typer.Typer:
    """The commands of `streamsched topics`."""
    topics = new_group("Checks and creates the topics of the log.")
    topics.command("check")(topics_check)
    topics.command("create")(topics_create)
    return topics


def state_commands() -> typer.Typer:
    """The commands of `streamsched state`."""
    state = new_group("Shows, exports and imports the shards' state of schedules.")
    state.command("show")(state_show)
    state.command("export")(state_export)
    state.command("import")(state_import)
    return state


def doctor(*, direct: DirectOption = False, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Checks the installation: log, shards, schema, clocks, permissions and Java.

    Exit code 1: a check failed.
    """
    from streamsched.admin.checks.check_result import FINDING
    from streamsched.admin.doctor import examine

    async def run(at: Installation) -> Any:
        return await examine(
            broker=at.broker, probe=at.probe, clock=at.clock, specs=at.specs, revisions=at.revisions, environ=os.environ
        )

    if through_api(url, direct=direct):
        location = find_url(url)
        findings = ask("GET", "/v1/admin/checks", url=url)["findings"]
    else:
        location = _database_here()
        findings = [FINDING.write(each) for each in administer(run)]
    findings = [{"check": "installation", "health": "ok", "found": location, "advice": ""}, *findings]
    if not print_structured(findings, output, names=lambda found: [each["check"] for each in found]):
        out = console()
        for each in findings:
            advice = f" → {escape_text(each['advice'])}" if each["advice"] else ""
            health = each["health"]
            out.print(f"[{_COLOURS[health]}]{health:8}[/] {each['check']}: {escape_text(each['found'])}{advice}")
    if any(each["health"] == "failed" for each in findings):
        raise typer.Exit(WRONG)


def topics_check(*, output: FormatOption = Format.TABLE) -> None:
    """Lists the topics and which of them are missing or wrongly configured.

    Changes nothing. Exit code 1: a topic is missing or wrongly configured.
    """
    from streamsched.admin.topics import check_topics

    _report(administer(lambda at: check_topics(at.broker, at.specs)), output)


def topics_create(*, output: FormatOption = Format.TABLE) -> None:
    """Creates the missing topics.

    Idempotent. Exit code 1: a topic is still wrongly configured.
    """
    from streamsched.admin.topics import create_topics

    _report(administer(lambda at: create_topics(at.broker, at.specs)), output)


def resync(
    *,
    mend: Annotated[bool, typer.Option("--mend", help="Send the missing definitions to the shards again.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Compares the schedules in the shards with those in PostgreSQL.

    Exit code 1: they differ; with --mend, they still differ afterwards.
    """
    from streamsched.admin import resync as admin
    from streamsched.catalog.catalog import PATIENCE
    from streamsched.catalog.outbox_ack import wait_for_ack

    async def run(at: Installation) -> tuple[int, Any]:
        faults = await admin.examine(broker=at.broker, reader=at.reader, outbox=at.outbox, numbers=at.numbers)
        if not (mend and faults):
            return 0, faults
        sent = await admin.mend(faults, mending=at.mending)
        await wait_for_ack(sent, acks=at.outbox, notifier=at.notifier, patience=PATIENCE)
        return len(sent), await admin.examine(broker=at.broker, reader=at.reader, outbox=at.outbox, numbers=at.numbers)

    sent, faults = administer(run)
    rows = [{"schedule": str(f.schedule), "fault": f.text, "curable": bool(f.repair)} for f in faults]
    if not print_structured({"told": sent, "faults": rows}, output):
        out = console()
        for fault in faults:
            note = "" if fault.repair else " (cannot be mended)"
            out.print(f"{short_name(str(fault.schedule))}: {escape_text(fault.text)}{note}")
        if sent:
            out.print(f"{sent} records were sent again")
        out.print("shards and PostgreSQL agree" if not faults else "`streamsched resync --mend` sends them again")
    if faults:
        raise typer.Exit(WRONG)


def reshard(
    shards: Annotated[int, typer.Argument(min=1, max=1024, metavar="SHARDS", help="New number of shards.")],
) -> None:
    """Changes the number of shards of the installation.

    Stop all workers and launchers before; emitters and the API can continue to run. Afterwards set STREAMSCHED_SHARDS
    to the new number. If the command is interrupted, nothing has changed; run it again.
    """
    from streamsched.admin.reshard import reshard as change
    from streamsched.ports.leases import LeaseHolder
    from streamsched.stream.shards.shard import ShardSettings

    settings = settings_here()

    async def run(at: Installation) -> Any:
        return await change(
            log_=at.log,
            leases=at.leases,
            me=LeaseHolder(f"reshard-{os.getpid()}", socket.gethostname(), os.getpid()),
            progress=at.progress,
            shards=shards,
            retention=settings.keep.log,
            ttl=settings.lease,
            settings=ShardSettings(
                dedupe_horizon=settings.worker.dedupe_horizon, verdicts=bool(settings.keep.verdicts)
            ),
        )

    done = administer(run)
    typer.echo(
        f"changed from {done.before.shards} to {done.after.shards} shards; {done.schedules} schedules and {done.rows} "
        f"rows moved; set STREAMSCHED_SHARDS={done.after.shards} and start workers and launchers again"
    )


def state_show(
    schedule: Annotated[str, typer.Argument(help="Schedule, [namespace.]app.name.")],
    *,
    direct: DirectOption = False,
    output: FormatOption = Format.JSON,
    url: UrlOption = "",
) -> None:
    """Shows the state of a schedule in its shard: definition, counts and open keys."""
    from streamsched.admin.state import show
    from streamsched.domain.names import ScheduleRef

    ref = ScheduleRef.parse(full_name(schedule))

    async def read(at: Installation) -> Any:
        return await show(at.broker, ref, (await at.reader.schedule(ref)).record.affinity)

    if through_api(url, direct=direct):
        found = ask("GET", f"/v1/admin/schedules/{ref}/state", url=url)
    else:
        found = administer(read)
    print_answer(found, output, print_record, names=lambda _: [short_name(str(ref))])


def state_export(file: Annotated[Path, typer.Argument(help="File to write; `-` is standard output.")]) -> None:
    """Writes the state of all shards as JSON lines: accumulated events, subscriptions and known event ids."""
    from streamsched.admin.state import export

    async def run(at: Installation) -> int:
        count = 0
        with whole_file(file) as out:
            async for line in export(at.broker):
                out.write(line + b"\n")
                count += 1
        return count - 2

    typer.echo(f"{administer(run)} rows exported", err=True)


def state_import(
    file: Annotated[Path, typer.Argument(help="File written by `state export`; `-` is standard input.")],
) -> None:
    """Replaces the state of all shards by an exported one.

    Stop all workers and launchers before. Events that were folded after the export are not folded again.
    """
    from streamsched.admin.restoration import restore
    from streamsched.ports.leases import LeaseHolder

    settings = settings_here()

    async def run(at: Installation) -> int:
        me = LeaseHolder(f"import-{os.getpid()}", socket.gethostname(), os.getpid())
        return await restore(lines, broker=at.broker, leases=at.leases, me=me, numbers=at.numbers, ttl=settings.lease)

    with _openable(file):
        opened = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with opened as lines:
        typer.echo(f"{administer(run)} rows written")


def _report(reports: tuple[TopicReport, ...], output: Format) -> None:
    rows = [
        {
            "topic": report.spec.name,
            "partitions": report.partitions,
            "cleanup": report.spec.cleanup.value,
            "wrong": report.wrong,
        }
        for report in reports
    ]
    if not print_structured(rows, output, names=lambda found: [each["topic"] for each in found]):
        columns = (Column("topic", kind=ColumnKind.ID), "partitions", "cleanup", Column("wrong", kind=ColumnKind.TEXT))
        print_table(rows, columns, wide=output.is_wide, empty="no topics")
    if any(report.wrong for report in reports):
        raise typer.Exit(WRONG)


@contextmanager
def _openable(file: Path) -> Iterator[None]:
    """Converts an error when opening the file.

    Raises:
        InvalidError: the file cannot be opened.
    """
    try:
        yield
    except OSError as exc:
        raise InvalidError("FILE", f"{file} cannot be opened: {exc.strerror}") from exc


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """Opens a file that is replaced atomically when all of it is on the disk. `-` is standard output; anything but a
    regular file is written directly.
    """
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    plain = not file.is_symlink() and (not file.exists() or file.is_file())
    with ExitStack() as held:
        with _openable(file):
            out = held.enter_context(write_atomically(file) if plain else file.open("wb"))
        yield out
    if plain:
        sync_folder(file.parent)


def administer(run: Callable[[Installation], Awaitable[_T]]) -> _T:
    """Opens the installation, calls `run` with it and returns the result."""
    import asyncio

    from streamsched.admin.installation import open_installation

    async def administer() -> _T:
        async with open_installation(settings_here()) as at:
            return await run(at)

    return asyncio.run(administer())


def through_api(url: str, *, direct: bool) -> bool:
    """Whether a command uses the API: its URL is given, or neither the environment nor this folder configures a
    database. So a command with a URL never reads another installation's database.
    """
    if direct:
        return False
    return bool(url) or not (os.environ.get("STREAMSCHED_DATABASE_URL") or _settings_of_dev())


def _database_here() -> str:
    """The URL of the configured database without user and password."""
    parts = urlsplit(settings_here().database_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _settings_of_dev() -> dict[str, Any]:
    """The settings of the `streamsched dev` of this folder; empty when none runs."""
    try:
        return dict(json.loads((folder_here() / "dev.json").read_text())["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def settings_here() -> Settings:
    """The settings in the environment, else those of the `streamsched dev` of this folder."""
    from streamsched.config import Settings

    settings = {} if os.environ.get("STREAMSCHED_DATABASE_URL") else _settings_of_dev()
    try:
        return Settings.from_env(os.environ, **settings)
    except ConfigurationError as exc:
        raise ConfigurationError(f"{exc}; no `streamsched dev` runs in this folder either") from exc
