"""Where the event log of a run is written, and Spark's settings for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import structlog

from streamsched.domain.schedules.process_job import SparkJob

log = structlog.get_logger()

#: Seconds that a shared folder may take to answer.
_MAKING_S: Final = 10.0
#: Settings of an event log, which are left alone where there are any.
_EVENT_LOG: Final = "spark.eventLog."


def event_log_settings(folder: Path) -> dict[str, str]:
    """Spark's settings for such a log. A small buffer and no compression, so that it is read while tasks end.

    Memory is read each second: Spark's default reads it at heartbeats only, and tasks of less than 10 s report none.
    """
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.buffer.kb": "1",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "16m",
        "spark.executor.metrics.pollingInterval": "1s",
    }


def defaults_log_events(environ: Mapping[str, str], home: Path) -> bool:
    """Whether `spark-defaults.conf` of this machine has settings of an event log. `home`: where Spark is."""
    defaults = Path(environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    given = defaults.read_text(errors="replace").splitlines() if defaults.is_file() else ()
    return any(line.strip().startswith(_EVENT_LOG) for line in given)


def program_logs_events(job: SparkJob) -> bool:
    """Whether the program, or its profile, has settings of an event log."""
    return any(name.startswith(_EVENT_LOG) for name in (*job.conf, *job.needs.secret_conf))


async def shared_event_log(place: Path | None, label: str, job: SparkJob, *, submitted: bool) -> Path | None:
    """The folder of the event log of a run whose driver runs elsewhere, made in the installation's folder for all who
    may write there; None when it is not to be measured, or the folder cannot be made within some seconds, which is
    logged: a network file system that hangs holds up no run.

    Args:
        place: the installation's folder; None: there is none.
        label: of the run, which is the name of the folder.
        submitted: the cluster has the driver, whose log is where it was put then.
    """
    if place is None or program_logs_events(job):
        return None
    made: Future[Path | None] = Future()
    threading.Thread(
        target=lambda: made.set_result(_folder_of(place, label, make=not submitted)), name="event-log", daemon=True
    ).start()
    try:
        async with asyncio.timeout(_MAKING_S):
            return await asyncio.shield(asyncio.wrap_future(made))
    except TimeoutError:
        log.warning("run.event_log_not_made", folder=str(place / label), reason=f"no answer in {_MAKING_S:g} s")
        return None


def _folder_of(place: Path, label: str, *, make: bool) -> Path | None:
    folder = place / label
    try:
        if make:
            mode = place.stat().st_mode & 0o7777
            folder.mkdir()
            folder.chmod(mode)
    except FileExistsError:  # made by the runner before
        pass
    except OSError as exc:
        log.warning("run.event_log_not_made", folder=str(folder), reason=str(exc))
        return None
    return folder if folder.is_dir() and not folder.is_symlink() else None
