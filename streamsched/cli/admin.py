"""Commands for administrators: straight to log and PostgreSQL, with or without anything running.

They find the installation by `STREAMSCHED_*`, or that of the `streamsched dev` of this folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeVar

import typer

from streamsched.cli.output import Format, FormatOption, console, escaped, print_json, print_table
from streamsched.cli.server import folder_here, full_name
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.durable import sync_folder, whole

if TYPE_CHECKING:
    from streamsched.admin.installation import Installation
    from streamsched.admin.topics import TopicReport
    from streamsched.config import Settings

_T = TypeVar("_T")

#: Exit code of checks that found something wrong.
WRONG: Final = 1
_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}
Letter = Annotated[str, typer.Argument(metavar="LETTER", help="partition/offset, as `dlq list` says.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("doctor")(doctor)
    app.command("resync")(resync)
    app.command("reshard")(reshard)
    topics = typer.Typer(help="The topics of the log.", no_args_is_help=True)
    topics.command("check")(topics_check)
    topics.command("create")(topics_create)
    app.add_typer(topics, name="topics")
    state = typer.Typer(help="What schedules have accumulated, from the log itself.", no_args_is_help=True)
    state.command("show")(state_show)
    state.command("export")(state_export)
    state.command("import")(state_import)
    app.add_typer(state, name="state")
    dlq = typer.Typer(help="Dead letters: what nobody could read.", no_args_is_help=True)
    dlq.command("list")(dlq_list)
    dlq.command("show")(dlq_show)
    dlq.command("replay")(dlq_replay)
    dlq.command("purge")(dlq_purge)
    app.add_typer(dlq, name="dlq")


def doctor(*, output: FormatOption = Format.TABLE) -> None:
    """Checks the installation: log, shards, schema, clocks, permissions. Exit code 1: something is wrong."""
    from streamsched.admin.doctor import Health, examine, worst

    async def run(at: Installation) -> Any:
        return await examine(broker=at.broker, probe=at.probe, clock=at.clock, specs=at.specs, revisions=at.revisions)

    findings = _administer(run)
    if output is Format.JSON:
        print_json([{"check": f.check, "health": f.health, "found": f.found, "advice": f.advice} for f in findings])
    else:
        out = console()
        for each in findings:
            advice = f" → {escaped(each.advice)}" if each.advice else ""
            out.print(f"[{_COLOURS[each.health]}]{each.health:8}[/] {each.check}: {escaped(each.found)}{advice}")
    if worst(findings) is Health.FAILED:
        raise typer.Exit(WRONG)


def topics_check(*, output: FormatOption = Format.TABLE) -> None:
    """Says which topics are missing or of another shape; makes none. Exit code 1: some are."""
    from streamsched.admin.topics import check_topics

    _report(_administer(lambda at: check_topics(at.broker, at.specs)), output)


def topics_create(*, output: FormatOption = Format.TABLE) -> None:
    """Makes the topics that are missing; idempotent."""
    from streamsched.admin.topics import create_topics

    _report(_administer(lambda at: create_topics(at.broker, at.specs)), output)


def resync(
    *,
    mend: Annotated[bool, typer.Option("--mend", help="Tell the shards what they do not know.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Compares what the shards know with the schedules in PostgreSQL. Exit code 1: they differ (still, with --mend)."""
    from streamsched.admin import resync as admin
    from streamsched.catalog.catalog import PATIENCE
    from streamsched.catalog.receipt import acknowledged

    async def run(at: Installation) -> tuple[int, Any]:
        faults = await admin.examine(broker=at.broker, reader=at.reader, outbox=at.outbox, numbers=at.numbers)
        if not (mend and faults):
            return 0, faults
        told = await admin.mend(faults, mending=at.mending)
        await acknowledged(told, receipts=at.outbox, bell=at.bell, patience=PATIENCE)
        return len(told), await admin.examine(broker=at.broker, reader=at.reader, outbox=at.outbox, numbers=at.numbers)

    told, faults = _administer(run)
    if output is Format.JSON:
        rows = [{"schedule": str(f.schedule), "fault": f.text, "curable": bool(f.cure)} for f in faults]
        print_json({"told": told, "faults": rows})
    else:
        out = console()
        for fault in faults:
            out.print(f"{fault.schedule}: {escaped(fault.text)}{'' if fault.cure else ' (cannot be told)'}")
        if told:
            out.print(f"{told} things were told again")
        out.print("shards and PostgreSQL agree" if not faults else "`streamsched resync --mend` tells them again")
    if faults:
        raise typer.Exit(WRONG)


def reshard(shards: Annotated[int, typer.Argument(min=1, max=1024, metavar="SHARDS")]) -> None:
    """Gives the installation another number of shards. Workers and launchers must be stopped; emitters and the API may
    go on. Killed half way it has changed nothing: run it again. Afterwards set STREAMSCHED_SHARDS to the new number.
    """
    from streamsched.admin.reshard import reshard as change
    from streamsched.ports.leases import Holder
    from streamsched.stream.shard import ShardSettings

    settings = settings_here()

    async def run(at: Installation) -> Any:
        return await change(
            log_=at.log,
            leases=at.leases,
            me=Holder(f"reshard-{os.getpid()}", socket.gethostname(), os.getpid()),
            progress=at.progress,
            shards=shards,
            retention=settings.retention,
            ttl=settings.lease,
            settings=ShardSettings(dedupe_horizon=settings.dedupe_horizon, verdicts=bool(settings.verdicts_keep)),
        )

    done = _administer(run)
    typer.echo(
        f"{done.before.shards} shards were, {done.after.shards} are: {done.schedules} schedules and {done.rows} rows "
        f"moved, each as it was; set STREAMSCHED_SHARDS={done.after.shards} and start everything again"
    )


def state_show(schedule: Annotated[str, typer.Argument(help="[namespace.]app.name")]) -> None:
    """What its shard knows of a schedule, as JSON."""
    from streamsched.admin.state import show
    from streamsched.domain.names import ScheduleRef

    ref = ScheduleRef.parse(full_name(schedule))
    print_json(_administer(lambda at: show(at.broker, ref)))


def state_export(file: Annotated[Path, typer.Argument(help="Where to; `-` is standard output.")]) -> None:
    """Every accumulation, subscription and known id of all shards, as lines of JSON."""
    from streamsched.admin.state import export

    async def run(at: Installation) -> int:
        count = 0
        with whole_file(file) as out:
            async for line in export(at.broker):
                out.write(line + b"\n")
                count += 1
        return count - 2

    typer.echo(f"{_administer(run)} rows exported", err=True)


def state_import(
    file: Annotated[Path, typer.Argument(help="What `state export` wrote; `-` is standard input.")],
) -> None:
    """Makes the shards' tables what was exported. Workers and launchers must be stopped; what came since is not counted
    again.
    """
    from streamsched.admin.restoration import restore
    from streamsched.ports.leases import Holder

    settings = settings_here()

    async def run(at: Installation) -> int:
        me = Holder(f"import-{os.getpid()}", socket.gethostname(), os.getpid())
        return await restore(lines, broker=at.broker, leases=at.leases, me=me, numbers=at.numbers, ttl=settings.lease)

    with _openable(file):
        opened = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with opened as lines:
        typer.echo(f"{_administer(run)} rows written")


def dlq_list(
    *, limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 100, output: FormatOption = Format.TABLE
) -> None:
    """The dead letters that are not put away, newest first."""
    from streamsched.admin.letters import letters, to_json

    rows = [to_json(each) for each in _administer(lambda at: letters(at.broker, at.put_away, limit=limit))]
    if output is Format.JSON:
        print_json(rows)
    else:
        print_table(rows, ("id", "at", "topic", "path", "reason"), empty="no dead letters")


def dlq_show(letter: Letter) -> None:
    """One letter with its record, as JSON."""
    from streamsched.admin.letters import letter as read
    from streamsched.admin.letters import to_json

    print_json(to_json(_administer(lambda at: read(at.broker, letter))))


def dlq_replay(letter_ids: Annotated[list[str], typer.Argument(metavar="LETTER...", help="partition/offset")]) -> None:
    """Sends records again to where they stood; events that were taken meanwhile are known by their ids."""
    from streamsched.admin.letters import letter, replay

    async def run(at: Installation) -> list[str]:
        found = [await letter(at.broker, name) for name in letter_ids]
        return [f"{one.id} is sent again to {'/'.join(map(str, await replay(at.broker, one)))}" for one in found]

    for line in _administer(run):
        typer.echo(line)


def dlq_purge() -> None:
    """Puts all letters away; the log forgets them when they are older than its retention."""
    from streamsched.admin.letters import purge

    typer.echo(f"{_administer(lambda at: purge(at.broker, at.put_away))} letters are put away")


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
    if output is Format.JSON:
        print_json(rows)
    else:
        print_table(rows, ("topic", "partitions", "cleanup", "wrong"), empty="no topics")
    if any(report.wrong for report in reports):
        raise typer.Exit(WRONG)


@contextmanager
def _openable(file: Path) -> Iterator[None]:
    """Raises:
    InvalidError: it cannot be opened.
    """
    try:
        yield
    except OSError as exc:
        raise InvalidError("FILE", f"{file} cannot be opened: {exc.strerror}") from exc


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """A file that has its name only once all of it is on the disk; what had that name before is kept until then. `-` is
    standard output; what is no plain file is written as it is.
    """
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    plain = not file.is_symlink() and (not file.exists() or file.is_file())
    with ExitStack() as held:
        with _openable(file):
            out = held.enter_context(whole(file) if plain else file.open("wb"))
        yield out
    if plain:
        sync_folder(file.parent)


def _administer(run: Callable[[Installation], Awaitable[_T]]) -> _T:
    """What `run` returns, with everything opened for it."""
    from streamsched.admin.installation import open_installation

    async def administering() -> _T:
        async with open_installation(settings_here()) as at:
            return await run(at)

    return asyncio.run(administering())


def settings_here() -> Settings:
    """As in the environment, else of the `streamsched dev` of this folder."""
    from streamsched.config import Settings

    given: dict[str, Any] = {}
    if not os.environ.get("STREAMSCHED_DATABASE_URL"):
        try:
            given = json.loads((folder_here() / "dev.json").read_text())["settings"]
        except (OSError, ValueError, KeyError):
            given = {}
    try:
        return Settings.from_env(os.environ, **given)
    except ConfigurationError as exc:
        raise ConfigurationError(f"{exc}; no `streamsched dev` runs in this folder either") from exc
