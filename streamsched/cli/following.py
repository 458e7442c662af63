"""Follows a run, or a job through all its runs, to the end: prints the logs, and returns the exit code."""

from __future__ import annotations

import codecs
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import typer

from streamsched.cli.naming import short_name
from streamsched.cli.run_metrics import TaskBar
from streamsched.cli.server import ask, request
from streamsched.cli.shell.log_text import LogText
from streamsched.cli.table import plain_text
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState

#: Seconds between requests.
_POLL_INTERVAL: Final = 0.5
#: Header of the log with the metrics of its run.
RUN_METRICS: Final = "Streamsched-Run-Metrics"
#: Added to a signal's number, as shells do.
_SIGNALLED: Final = 128


def follow_log(path: str, offset: str, url: str) -> RunState:
    """Prints the log at `path` from `offset` on until the run has ended; returns the run's last state. At a terminal
    the last line shows how many tasks have ended, of a run that has metrics.
    """
    tasks, shown = TaskBar(sys.stderr), LogText(terminal=sys.stdout.isatty())
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        answer = request("GET", path, url=url, params={"offset": offset})
        if answer.content:
            tasks.clear()
        typer.echo(shown.part(decoder.decode(answer.content)), nl=False)
        state, offset = RunState(answer.headers["streamsched-run-state"]), answer.headers["streamsched-log-offset"]
        if answer.content:
            continue
        if state.is_terminal:
            tasks.clear()
            typer.echo(shown.part(decoder.decode(b"", final=True)) + shown.end(), nl=False)
            return state
        tasks.show(json.loads(answer.headers.get(RUN_METRICS, "null")))
        time.sleep(_POLL_INTERVAL)


def follow_job(job: str, url: str) -> int:
    """Follows a job until its last run has ended, a job that was coalesced into another by that one. Logs go to the
    standard output, what happens to the job to the error output. Returns the exit code of the last run; 1 when there
    was no run, or it failed without one.
    """
    noted, ended = "", 0
    while True:
        found = ask("GET", f"/v1/jobs/{job}", url=url)
        state = JobState(found["state"])
        note = _note(found, state)
        if note and note != noted:
            typer.secho(plain_text(note), err=True)
            noted = note
        if state is JobState.COALESCED:
            job = found["joined"]
            continue
        if len(found["runs"]) > ended:
            run = found["runs"][ended]
            typer.secho(f"run {short_name(run)}", err=True)
            follow_log(f"/v1/runs/{run}/logs", "0", url)
            ended += 1
            continue
        if ended:  # no further attempt was stored with the end of the last one
            return run_exit_code(ask("GET", f"/v1/runs/{found['runs'][-1]}", url=url))
        if state.is_terminal:
            return 1
        time.sleep(_POLL_INTERVAL)


def run_exit_code(run: Mapping[str, Any]) -> int:
    """The exit code of an ended run for a shell: 0 for a completed one, 128 and the signal for one ended by a signal,
    1 for one that failed without a code.

    >>> run_exit_code({"state": "FAILED", "exitCode": 3}), run_exit_code({"state": "KILLED", "exitCode": -15})
    (3, 143)
    """
    if RunState(run["state"]) is RunState.COMPLETED:
        return 0
    code = run["exitCode"] or 1
    return _SIGNALLED - code if code < 0 else code


def _note(job: Mapping[str, Any], state: JobState) -> str:
    """What a person who waits wants to know about the job; empty while that is nothing."""
    name = short_name(job["id"])
    match state:
        case JobState.PENDING_CONSTRAINT:
            return f"{name} waits: {job['reason']}" if job["reason"] else ""
        case JobState.COALESCED:
            return f"{name} joined {short_name(job['joined'])}, which waited already"
        case JobState.ABORTED | JobState.TIMED_OUT | JobState.OBSOLETE | JobState.LAUNCH_FAILED:
            return f"{name} is {state}: {job['reason']}"
        case JobState.PENDING_TRIGGER | JobState.PENDING_LAUNCH | JobState.LAUNCHED:
            return ""
