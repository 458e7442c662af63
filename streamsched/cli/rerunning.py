"""`streamsched run rerun`: repeats a job, or all jobs of a schedule whose last run failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.confirmation import YesOption, confirm
from streamsched.cli.following import follow_job
from streamsched.cli.naming import full_job, full_name, full_run, short
from streamsched.cli.output import Format, FormatOption, console, print_json, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.codec.json.reading import instant
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.limits import later
from streamsched.domain.time.duration import parse_duration
from streamsched.ports.clock import SystemClock

_RUN: Final = re.compile(r".+\.r\d+")
_FAILED: Final = (RunState.FAILED, RunState.LOST)
#: Most jobs that one command repeats, and most that it reads to find them.
_MOST: Final = 1000
_READ: Final = 10_000
_PAGE: Final = 1000
#: How long before a run's end its job was made, at most.
_LONGEST: Final = timedelta(days=7)
_COLUMNS: Final = (
    Column("id", "job", ColumnKind.ID),
    Column("outcome", "state"),
    Column("lastRunEndedAt", "ended"),
    Column("outcomeReason", "reason", ColumnKind.TEXT, breakable=True),
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
        typer.Option(help="A repeat with the same key finds the first job. Default: the number of the attempt."),
    ] = "",
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
    jobs and asks; without a terminal it needs --yes (otherwise exit code 7).
    """
    body: dict[str, Any] = {"arguments": pairs(arguments or ()), "reason": reason or None, "mute": mute}
    if failed == bool(name):
        raise InvalidError("RUN|JOB", "name either a run or job, or --failed with a --schedule")
    if not failed:
        if schedule:
            raise InvalidError("--schedule", "is for --failed")
        if not (idempotency_key.isascii() and idempotency_key.isprintable()):
            raise InvalidError("--idempotency-key", "must be printable ASCII")
        kind = f"runs/{full_run(name)}" if _RUN.fullmatch(name) else f"jobs/{full_job(name)}"
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
        found = ask("POST", f"/v1/{kind}/rerun", url=url, body=body, headers=headers)
        print_json(found) if output is Format.JSON else console().print(_made(found), markup=False)
        if wait:
            raise typer.Exit(follow_job(found["job"], url))
        return
    if wait or idempotency_key:
        raise InvalidError("--wait and --idempotency-key", "are for one run or job")
    jobs = _failed_jobs(full_name(schedule), since, url)
    if jobs and not yes:
        _confirm_jobs(jobs, quiet=output is Format.JSON)
    made = [ask("POST", f"/v1/jobs/{job['id']}/rerun", url=url, body=body) for job in jobs]
    if output is Format.JSON:
        print_json(made)
    elif not made:
        console().print(f"no run of {schedule} failed within {since} and was not rerun")
    else:
        for each in made:
            console().print(_made(each), markup=False)


def _made(found: Mapping[str, Any]) -> str:
    job = short(found["job"])
    return f"{job} {'was submitted before' if found['repeated'] else 'is submitted'}; see `streamsched job why {job}`"


def _confirm_jobs(jobs: Sequence[Mapping[str, Any]], *, quiet: bool) -> None:
    """Shows the jobs and asks at the terminal.

    Raises:
        typer.Exit: the answer is no, or there is no terminal (`NOT_CONFIRMED`).
    """
    if quiet:
        print_json(list(jobs))
    else:
        print_table([{**job, "id": short(job["id"])} for job in jobs], _COLUMNS, empty="")
    confirm(
        f"Rerun these {len(jobs)}?",
        declined="nothing was rerun",
        refused="nothing was rerun; `--yes` reruns these jobs",
        quiet=quiet,
    )


def _failed_jobs(schedule: str, since: str, url: str) -> Sequence[Mapping[str, Any]]:
    """The jobs of the schedule whose last run failed or was lost within `since` and was not repeated, oldest first.

    Raises:
        InvalidError: no schedule, a wrong duration, or more jobs than one command repeats.
    """
    if not schedule:
        raise InvalidError("--schedule", "is missing: --failed repeats the jobs of one schedule")
    begin = later(SystemClock().now(), -parse_duration(since, "--since"))
    ask("GET", f"/v1/schedules/{schedule}", url=url)
    jobs = list(_jobs_since(schedule, begin, url))
    repeated = {job["submission"]["rerunOf"] for job in jobs if job["submission"]}
    found = [
        job
        for job in jobs
        if job["outcome"] in _FAILED
        and job["runs"][-1] not in repeated
        and instant(job["lastRunEndedAt"], "$.lastRunEndedAt") >= begin
    ]
    if len(found) > _MOST:
        raise InvalidError("--since", f"covers {len(found)} failed jobs; one command reruns at most {_MOST}")
    return found[::-1]


def _jobs_since(schedule: str, begin: datetime, url: str) -> Iterator[Mapping[str, Any]]:
    """The launched jobs of a schedule that may have ended since then, newest first: those made from `_LONGEST` before,
    because a job is made before its run ends.

    Raises:
        InvalidError: there are too many to read.
    """
    params: dict[str, Any] = {"schedule": schedule, "state": "LAUNCHED", "limit": _PAGE}
    read = 0
    while True:
        found = ask("GET", "/v1/jobs", url=url, params=params)
        for job in found["jobs"]:
            if instant(job["createdAt"], "$.createdAt") < later(begin, -_LONGEST):
                return
            yield job
        read += len(found["jobs"])
        if "next" not in found:
            return
        if read >= _READ:
            raise InvalidError("--since", f"covers more than {_READ} jobs of {short(schedule)}")
        params["after"] = found["next"]
