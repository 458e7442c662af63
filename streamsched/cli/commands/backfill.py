"""`streamsched backfill`: many jobs of one schedule over a span, as one object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_backfill, full_name, short_name
from streamsched.cli.output import (
    Format,
    FormatOption,
    console,
    print_record,
    print_structured,
    print_table,
    state_style,
)
from streamsched.cli.progress_bar import bar
from streamsched.cli.resources.listing import Listing, NamespaceFilter, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.shell.completion import schedule_names
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path
from streamsched.domain.backfills.backfill import BackfillOrder, Only
from streamsched.domain.backfills.request import DEFAULT_ACTIVE, DEFAULT_FAILURES, MOST_ACTIVE, MOST_FAILURES
from streamsched.domain.errors import InvalidError
from streamsched.spark.manifest import visible_partitions
from streamsched.spark.posix_store import manifests_of

_WIDTH: Final = 80
#: Arguments that are in columns of their own, or the same for all jobs.
_FACTS: Final = ("trigger.", "key.", "logical.start.time")

Backfill = Annotated[str, typer.Argument(metavar="BACKFILL", help="Id of the backfill.")]


def commands() -> typer.Typer:
    """The commands of `streamsched backfill`."""
    app = new_group(
        "Starts, lists, shows, pauses, resumes and cancels backfills: many jobs of one schedule over a span."
    )
    app.command("start")(start)
    app.command("list")(list_backfills)
    app.command("show")(show)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("cancel")(cancel)
    return app


def start(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedule, [namespace.]app.name.")
    ],
    *,
    begin: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="First tick: an instant, or a date in the zone of the schedule."),
    ] = "",
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Last tick: an instant, or a date, whose whole day is included.")
    ] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUES",
            help="Values of a column of the key: `date=2013-01-01..2013-01-31` or `region=EU,US`. Repeated for several "
            "columns, which makes all combinations.",
        ),
    ] = None,
    manifests: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of a partitioned file set: the partitions that its manifests hold."
        ),
    ] = None,
    dataset: Annotated[str, typer.Option(help="With --partition: their dataset, [namespace.]name.")] = "",
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="KEY", help="A partition, such as `date=2013-01-01`. Can be repeated."),
    ] = None,
    only: Annotated[
        Only,
        typer.Option(help="What no run of the schedule was about, what its latest run failed about, or everything."),
    ] = Only.MISSING,
    order: Annotated[BackfillOrder, typer.Option(help="Which jobs come first.")] = BackfillOrder.OLDEST,
    max_active: Annotated[
        int, typer.Option(min=1, max=MOST_ACTIVE, help="Most jobs that wait or run at a time.")
    ] = DEFAULT_ACTIVE,
    max_failures: Annotated[
        int,
        typer.Option(min=0, max=MOST_FAILURES, help="Pause when so many jobs in a row have failed; 0: go on."),
    ] = DEFAULT_FAILURES,
    mute: Annotated[
        bool, typer.Option("--mute/--downstream", help="Whether the end of the runs is kept from all schedules.")
    ] = False,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="An argument of the runs; overrides all others. Repeatable."),
    ] = None,
    reason: ReasonOption = "",
    idempotency_key: Annotated[
        str, typer.Option(help="A repeat with the same key finds the first backfill. Default: a random key.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the jobs that would be made; make none.")] = False,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="With --dry-run: number of jobs.")] = 100,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make more than 10,000 jobs.")] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Starts a backfill: makes jobs of a schedule for a span of ticks, keys or partitions.

    At most --max-active jobs wait or run at a time, and all other waiting jobs come before them. A backfill goes on
    after a restart where it was. `--dry-run` prints the jobs and what is known of them.
    """
    if not (idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidError("--idempotency-key", "must be printable ASCII")
    body: dict[str, Any] = {
        **_keyed_span(keys or []),
        **({"from": begin or None, "to": end or None} if begin or end else {}),
        **_partition_span(manifests, dataset, partitions or []),
        "only": only,
        "order": order,
        "maxActive": max_active,
        "maxFailures": max_failures,
        "mute": mute,
        "arguments": pairs(arguments or ()),
        "reason": reason or None,
        "confirmed": yes,
    }
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    params = {"dry_run": "true", "limit": limit} if dry_run else None
    path = f"/v1/schedules/{full_name(schedule)}/backfills"
    found = ask("POST", path, url=url, body=body, params=params, headers=headers)
    if output.is_structured:
        print_structured(found, output)
    elif dry_run:
        _print_plan(found)
    else:
        name, jobs = short_name(found["id"]), found["counts"]["jobs"]
        said = "was started before" if found["repeated"] else f"is started with {jobs} jobs"
        console().print(f"{name} {said}; see `streamsched backfill show {name}`", markup=False)


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    counts = found["counts"]
    ended = counts["succeeded"] + counts["failed"] + counts["dropped"]
    failed = counts["failed"] + counts["dropped"]
    return {**found, **counts, "id": short_name(found["id"]), "ended": ended, "failed": failed}


@list_command(
    Listing(
        "backfills",
        (
            Column("id", "backfill", ColumnKind.ID),
            Column("state", style=state_style),
            "jobs",
            "ended",
            "active",
            Column("failed", optional=1),
            Column("createdAt", "started", ColumnKind.TIME),
        ),
        "no backfills",
        _row,
    )
)
def list_backfills(
    *,
    schedule: Annotated[
        str, typer.Option(autocompletion=schedule_names, help="Only backfills of this schedule, [namespace.]app.name.")
    ] = "",
    namespace: NamespaceFilter = "",
) -> Query:
    """Lists backfills, newest first."""
    return Query("/v1/backfills", {"schedule": full_name(schedule), "namespace": namespace})


def show(backfill: Backfill, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows a backfill with its progress, and its active and failed jobs."""
    path = api_path("backfills", full_backfill(backfill))
    found = ask("GET", path, url=url)
    if print_structured(found, output):
        return
    console().print(progress(found["counts"]), markup=False)
    first = ("id", "schedule", "state", "stateReason", "from", "to")
    ordered = {name: found[name] for name in first if name in found} | found
    named = {name: value for name, value in ordered.items() if name not in ("counts", "mute")}
    print_record({**named, "mute": found["mute"] or None, **_shown_span(found)})
    states = ["ACTIVE", "FAILED", "DROPPED"]
    jobs = ask("GET", f"{path}/jobs", url=url, params={"state": states, "limit": 50})
    if jobs["jobs"]:
        columns = (
            Column("job", kind=ColumnKind.ID),
            Column("state", style=state_style),
            Column("outcome", style=state_style),
            Column("reason", kind=ColumnKind.REASON),
        )
        print_table(
            ({**each, "job": short_name(each["job"])} for each in jobs["jobs"]), columns, wide=output.is_wide, empty=""
        )
        if "next" in jobs:
            console().print("and more", style="dim")


@request_command
def pause(backfill: Backfill, *, reason: ReasonOption = "") -> CommandRequest:
    """Makes no further jobs and holds those that wait; active runs go on."""
    return _request(backfill, "pause", reason)


@request_command
def resume(backfill: Backfill, *, reason: ReasonOption = "") -> CommandRequest:
    """Goes on with a paused backfill."""
    return _request(backfill, "resume", reason)


@request_command
def cancel(backfill: Backfill, *, reason: ReasonOption = "") -> CommandRequest:
    """Makes no further jobs and ends those that wait; active runs go on (`run kill` ends one)."""
    return _request(backfill, "cancel", reason)


def progress(counts: Mapping[str, int]) -> str:
    """The bar and the numbers, each a line of at most 80 characters."""
    ended = counts["succeeded"] + counts["failed"] + counts["dropped"]
    parts = {"#": counts["succeeded"], "!": counts["failed"] + counts["dropped"], ">": counts["active"]}
    numbers = ", ".join(
        f"{counts[name]} {name}" for name in ("succeeded", "failed", "dropped", "active", "waiting") if counts[name]
    )
    percent = f" {100 * ended // counts['jobs'] if counts['jobs'] else 0:3d}%"
    shown = bar(parts, counts["jobs"], width=_WIDTH - len(percent)) + percent
    return "\n".join([shown, *wrap(f"{ended} of {counts['jobs']}: {numbers}", _WIDTH)])


def _request(backfill: str, action: str, reason: str) -> CommandRequest:
    path = api_path("backfills", full_backfill(backfill), action)
    return action_request(path, lambda found: f"{short_name(found['id'])} is {found['state']}", reason=reason)


def _keyed_span(keys: list[str]) -> dict[str, Any]:
    columns = pairs(keys)
    if len(columns) < len(keys):
        raise InvalidError("--keys", "names a column twice; separate its values by commas")
    return {"keys": columns} if columns else {}


def _partition_span(manifests: Path | None, dataset: str, partitions: list[str]) -> dict[str, Any]:
    if manifests is None:
        return {"dataset": dataset or None, "partitions": partitions} if dataset or partitions else {}
    if dataset or partitions:
        raise InvalidError("--manifests", "names dataset and partitions; leave --dataset and --partition out")
    return _read_held(manifests)


def _read_held(folder: Path) -> dict[str, Any]:
    """The dataset and the partitions of the manifests in a folder.

    Raises:
        InvalidError: it has none, or one cannot be read.
    """
    try:
        read = manifests_of(folder)
    except OSError as exc:
        raise InvalidError("--manifests", f"{folder}: {exc}") from exc
    if not read:
        raise InvalidError("--manifests", f"{folder} is no partitioned file set: it has no manifests in _manifest")
    partitions = [each.partition for each in visible_partitions(read).values()]
    return {
        "dataset": str(read[-1].dataset),
        "partitions": [
            {"key": each.key, "values": dict(each.values), "bytes": each.bytes, "rows": each.rows}
            for each in partitions
        ],
    }


def _print_plan(found: Mapping[str, Any]) -> None:
    counts, jobs = found["counts"], found["jobs"]
    columns = (
        Column("job", kind=ColumnKind.ID),
        Column("logicalTime", "logical time", ColumnKind.TIME),
        Column("key", kind=ColumnKind.TEXT),
        Column("known"),
        Column("latest", optional=2),
        Column("arguments", kind=ColumnKind.TEXT, breakable=True, optional=1),
    )
    used = [each for each in columns if each.name not in ("logicalTime", "key") or any(job[each.name] for job in jobs)]
    print_table(map(_planned_row, jobs), used, empty="nothing to do")
    more = counts["jobs"] - len(jobs)
    said = f"{counts['jobs']} jobs would be made" + (f", {more} of them not shown" if more else "")
    console().print(f"{said}; {counts['skipped']} of the span are left out by --only", markup=False)


def _planned_row(job: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in job["arguments"].items() if not name.startswith(_FACTS)}
    return {
        **job,
        "job": short_name(job["job"]),
        "latest": job["latest"] and short_name(job["latest"]),
        "arguments": " ".join(f"{name}={value}" for name, value in own.items()) or None,
    }


def _shown_span(found: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a request whose values are objects, as texts."""
    shown: dict[str, Any] = {}
    if "keys" in found:
        shown["keys"] = _join_texts(f"{name}={','.join(values)}" for name, values in found["keys"].items())
    if "partitions" in found:
        shown["partitions"] = str(found["partitions"]["count"])
    shown["arguments"] = _join_texts(f"{name}={value}" for name, value in found["arguments"].items())
    return shown


def _join_texts(texts: Iterable[str]) -> str:
    return " ".join(texts)
