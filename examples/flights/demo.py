"""`make demo`: a pipeline on real data, from the first partition to the report, shown live.

Starts a scheduler, deploys `app.py`, runs `land.py` (the upstream job), and shows events, jobs and runs. The state of
the scheduler is in .streamsched/demo, the data of each demo in a new folder there.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from driver.scheduler import Api, SchedulerError, deploy, running
from driver.screen import Screen
from driver.story import Commit, Moment, counted, time_line, when
from rich.console import Console

from streamsched.spark.manifest import Manifest

HERE = Path(__file__).resolve().parent
PATIENCE = 600.0
#: What the first line says of a lake.
IN = {"files": "", "delta": " and Delta Lake"}


class DemoError(Exception):
    """The demo failed; the message has the cause and a remedy."""


def require_java() -> None:
    """Raises:
    DemoError: Java 17 or newer, which Spark needs, is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        raise DemoError(
            "Spark needs Java 17 or newer, and there is no `java` "
            + (f"in JAVA_HOME ({home})." if home else "on the PATH.")
            + "\nInstall it (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
            + "\nor set JAVA_HOME, and run `make demo` again."
        )
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    if version and int(version[1]) < 17:
        raise DemoError(f"Spark needs Java 17 or newer, and {java} is Java {version[1]}. Set JAVA_HOME to a newer one.")


def observed(api: Api, since: datetime) -> Moment:
    """Progress, jobs and runs since then, without those of earlier demos."""
    schedules = api.schedules()
    jobs = [job for each in schedules.values() for job in api.jobs(each["id"]) if when(job["satisfiedAt"]) >= since]
    job_ids = {job["id"] for job in jobs}
    runs = [run for name in ("join", "report") for run in api.runs(f"default.flights.{name}") if run["job"] in job_ids]
    return Moment(counted(schedules["weekly-join"]), tuple(jobs), tuple(sorted(runs, key=lambda run: run["createdAt"])))


def landed(data: Path, lake: str) -> list[Commit]:
    """The commits of the upstream job: from the manifests, or from the logs of the tables."""
    if lake == "delta":
        return sorted(_in_tables(data), key=lambda commit: commit.at)
    manifests = [Manifest.decode(path.read_bytes()) for path in data.glob("[fw]*/_manifest/*.json")]
    return [
        Commit(m.at, m.dataset.name, tuple(p.values["day"] for p in m.partitions), sum(p.rows for p in m.partitions))
        for m in sorted(manifests, key=lambda m: m.at)
    ]


def _in_tables(data: Path) -> Iterator[Commit]:
    from streamsched.spark.tables.delta_source import DeltaSource  # noqa: PLC0415 (comes with the extra `delta`)

    for name in ("flights", "weather"):
        if (data / name / "_delta_log" / f"{0:020d}.json").exists():
            for commit in (step.commit for step in DeltaSource(str(data / name)).steps_after("") if step.commit):
                days = tuple(part.values["day"] for part in commit.partitions)
                yield Commit(commit.at or datetime.now(UTC), name, days, commit.rows)


def watch(
    api: Api, screen: Screen, upstream: subprocess.Popen[bytes], data: Path, *, lake: str, weeks: int, since: datetime
) -> Moment:
    """Shows the progress until the pipeline is complete; returns the last state.

    Raises:
        DemoError: a program failed, or the timeout expired.
    """
    deadline = time.monotonic() + PATIENCE
    with screen.watching():
        while time.monotonic() < deadline:
            moment = observed(api, since)
            commits = landed(data, lake)
            days = sum(len(commit.days) for commit in commits)
            screen.show(moment, landing=_landing(upstream, days))
            if upstream.poll():
                raise DemoError(f"land.py failed; the end of its log:\n{_tail(data / 'land.log')}")
            if (run := moment.failed()) is not None:
                raise DemoError(f"run {run['id']} is {run['state']}: {run['reason']}\n{api.log(run['id'])}")
            if upstream.poll() == 0 and moment.complete(weeks):
                return moment
            time.sleep(0.25)
    raise DemoError(f"not complete after {PATIENCE:.0f} s; the scheduler's log is {data.parent / 'dev.log'}")


def demo(screen: Screen, folder: Path, weeks: int, lake: str) -> None:
    since = datetime.now(UTC)
    data = folder / since.strftime("data-%Y%m%d-%H%M%S")
    data.mkdir(parents=True)
    screen.say(f"[bold]streamsched demo[/]: flights and hourly weather of New York, March 2013, on Spark{IN[lake]}")
    screen.say("  starting PostgreSQL, the log, a worker, a launcher and the API in one process …")
    with running(folder) as api:
        screen.say(f"  scheduler: {api.url}   state: {folder}")
        deploy(HERE / "app.py", api, {"FLIGHTS_DATA": str(data), "LAKE": lake})
        screen.say("  deployed:  7 new days of flights and 7 new days of weather → join;   join succeeded → report\n")
        with (data / "land.log").open("wb") as log:
            upstream = subprocess.Popen(
                [sys.executable, str(HERE / "land.py"), "--data", str(data), "--weeks", str(weeks), "--lake", lake],
                env={
                    **os.environ,
                    "STREAMSCHED_EMIT_URL": api.url,
                    "STREAMSCHED_TOKEN": api.token,
                    "STREAMSCHED_SPOOL": str(folder / "spool"),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            moment = watch(api, screen, upstream, data, lake=lake, weeks=weeks, since=since)
        finally:
            if upstream.poll() is None:
                upstream.terminate()
                upstream.wait()
        screen.answer(pd.read_csv(data / "report.csv"))
        screen.story(time_line(landed(data, lake), moment))
    where_next(screen, folder, data, moment)


def where_next(screen: Screen, folder: Path, data: Path, moment: Moment) -> None:
    """Prints paths to open, commands to try, and last the page to open."""
    shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    join = next(run for run in moment.runs if run["program"].endswith(".join"))
    screen.say("\n[bold]Where to look next[/]")
    screen.say(f"  the picture       {data / 'report.png'}")
    screen.say(f"  the table         {data / 'report.csv'}")
    screen.say("  the pipeline      examples/flights/app.py, join.py: made to be copied")
    screen.say(f"  go on from here   .venv/bin/streamsched dev --data-dir {shown} --port 8765, and in another terminal")
    screen.say(f"                    .venv/bin/streamsched job why {join['job']}")
    screen.say(f"                    .venv/bin/streamsched run logs {join['id']}")
    screen.say("  the page          `dev` prints an address that logs you in; then this says what started the join:")
    screen.say(f"                    http://127.0.0.1:8765/ui/runs/{join['id']}")


def _landing(upstream: subprocess.Popen[bytes], days: int) -> str:
    if upstream.poll() is not None:
        return f"land.py is done: {days} partitions landed"
    return f"land.py has landed {days} partitions" if days else "land.py starts Spark …"


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".streamsched/demo"))
    parser.add_argument("--lake", choices=tuple(IN), default="files", help="where the datasets are")
    args = parser.parse_args()
    screen = Screen(Console())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that the scheduler is stopped too
    try:
        require_java()
        demo(screen, args.folder.resolve(), args.weeks, args.lake)
    except (DemoError, SchedulerError) as exc:
        screen.console.print(str(exc), style="red", markup=False, highlight=False, soft_wrap=True)
        screen.say(f"  its log: {args.folder / 'dev.log'}" if isinstance(exc, SchedulerError) else "")
        return 1
    except KeyboardInterrupt:
        screen.say("stopped; what was reached is kept")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
