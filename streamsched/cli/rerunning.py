"""`streamsched run rerun`: repeats a job, or all jobs of a schedule whose last run failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.confirmation import YesOption, confirm
from streamsched.cli.following import follow_job
from streamsched.cli.naming import full_job, full_name, full_run, short_name
from streamsched.cli.output import Format, FormatOption, console, print_json, print_structured, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError
from streamsched.domain.time.duration import parse_duration

_RUN: Final = re.compile(r".+\.r\d+")
_COLUMNS: Final = (
    Column("id", "job", ColumnKind.ID),
    Column("outcome", "state"),
    Column("lastRunEndedAt", "ended", ColumnKind.TIME),
    Column("outcomeReason", "reason", ColumnKind.REASON),
)


def rerun(
    name: Annotated[
        str, typer.Argument(metavar="[RUN|JOB]", help="The run, or the job whose last run, is repeated.")
    ] = "",
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="Repeat all jobs of --schedule whose last run failed or was lost.")
    ] = False,
    schedule: Annotated[str, typer.Option(help="With --failed: the schedule, [namespace.]app.name.")] = "",
    since: Annotated[
        str, typer.Option(help="With --failed: how long ago these runs ended at most, such as 1d.")
    ] = "1d",
    arguments: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="An argument of the run; overrides all others. Repeatable."),
    ] = None,
    mute: Annotated[
        bool, typer.Option("--mute/--downstream", help="Whether the end of the new runs is kept from all schedules.")
    ] = False,
    reason: ReasonOption = "",
    idempotency_key: Annotated[
        str,
        typer.Option(help="A repeat with the same key finds the first jobs. Default: the number of the attempt."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --failed: show the jobs; repeat none.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the log to the end; exit with the exit code of the run.")
    ] = False,
    yes: YesOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Repeats a job: a new job with the same triggering events, key and logical time.

    Program and schedule are as they are now. The new job waits for the constraints by itself. A repeated command finds
    the first rerun; for one more, give an --idempotency-key or repeat the rerun. With --failed the command shows the
    jobs and asks; without a terminal it needs --yes (otherwise exit code 7). It reruns all of them or none.
    """
    body: dict[str, Any] = {"arguments": pairs(arguments or ()), "reason": reason or None, "mute": mute}
    if failed == bool(name):
        raise InvalidError("RUN|JOB", "name either a run or job, or --failed with a --schedule")
    if not (idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidError("--idempotency-key", "must be printable ASCII")
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    if failed:
        if wait:
            raise InvalidError("--wait", "is for one run or job")
        if not schedule:
            raise InvalidError("--schedule", "is missing: --failed repeats the jobs of one schedule")
        path = f"/v1/schedules/{full_name(schedule)}/reruns"
        parse_duration(since, "--since")
        jobs = ask("POST", path, url=url, body={"since": since}, params={"dry_run": "true"})["jobs"]
        if dry_run:
            _show(jobs, quiet=output.is_structured)
            return
        if jobs and not yes:
            _confirm_jobs(jobs, quiet=output.is_structured)
        body |= {"since": since, "runs": [job["run"] for job in jobs]}
        made = ask("POST", path, url=url, body=body, headers=headers)["jobs"]
        _print_made(made, output, empty=f"no run of {schedule} failed within {since} and was not rerun")
        return
    if schedule or dry_run:
        raise InvalidError("--schedule and --dry-run", "are for --failed")
    kind = f"runs/{full_run(name)}" if _RUN.fullmatch(name) else f"jobs/{full_job(name)}"
    found = ask("POST", f"/v1/{kind}/rerun", url=url, body=body, headers=headers)
    print_structured(found, output) if output.is_structured else console().print(_made_text(found), markup=False)
    if wait:
        raise typer.Exit(follow_job(found["job"], url))


def _print_made(made: Sequence[Mapping[str, Any]], output: Format, *, empty: str) -> None:
    if print_structured(list(made), output):
        return
    for each in made:
        console().print(_made_text(each), markup=False)
    if not made:
        console().print(empty)


def _made_text(found: Mapping[str, Any]) -> str:
    job = short_name(found["job"])
    return f"{job} {'was submitted before' if found['repeated'] else 'is submitted'}; see `streamsched job why {job}`"


def _confirm_jobs(jobs: Sequence[Mapping[str, Any]], *, quiet: bool) -> None:
    """Shows the jobs and asks at the terminal.

    Raises:
        typer.Exit: the answer is no, or there is no terminal (`NOT_CONFIRMED`).
    """
    _show(jobs, quiet=quiet)
    confirm(
        f"Rerun these {len(jobs)}?",
        declined="nothing was rerun",
        refused="nothing was rerun; `--yes` reruns these jobs",
        quiet=quiet,
    )


def _show(jobs: Sequence[Mapping[str, Any]], *, quiet: bool) -> None:
    """Prints the jobs; `quiet`: as JSON."""
    if quiet:
        print_json(list(jobs))
    else:
        rows = [{**job, "id": short_name(job["id"])} for job in jobs]
        print_table(rows, _COLUMNS, empty="no job failed that was not rerun")
