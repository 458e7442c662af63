"""The command line at a terminal of 80 columns: whole names, what is lost is asked about, and what runs tonight."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(600)]

LONG = "s" * 200

APP = f"""
from streamsched import App, every, partitions

app = App("flights")
join = app.bash("join", "echo first; sleep 1; echo second; false")
app.schedule("weekly-join", join, when=partitions("flights", 7) & partitions("weather", 7))
app.schedule("at-once", join, when=partitions("one"))
app.schedule("hourly", join, when=every("1h"))
app.schedule("{LONG}", join, when=partitions("nowhere"))
"""

COPY = """
from streamsched import App, partitions

app = App("flights")
app.schedule("mine", app.bash("join", "true"), when=partitions("flights"))
"""

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_COMMAND = (sys.executable, "-c", "from streamsched.cli.main import main; main()")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    dev = DevProcess(tmp_path_factory.mktemp("terminal"))
    (dev.folder / "app.py").write_text(APP)
    (dev.folder / "mine.py").write_text(COPY)
    dev.start()
    try:
        assert dev.run("deploy", "app.py").code == 0
        yield dev
    finally:
        dev.close()


def at_terminal(dev: DevProcess, *arguments: str, answer: str = "") -> tuple[int, list[str]]:
    """The exit code of a command at a terminal, and its lines; the answer is typed when it asks."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        (*_COMMAND, *arguments),
        cwd=dev.folder,
        env=dev.environ(COLUMNS="80", TERM="xterm"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
        if answer and b"[y/N]" in said:
            os.write(ours, f"{answer}\n".encode())
            answer = ""
    os.close(ours)
    return process.wait(timeout=10), [line.rstrip() for line in _STYLE.sub("", said.decode()).splitlines()]


def test_lists_show_whole_names(running: DevProcess) -> None:
    code, lines = at_terminal(running, "schedule", "list")

    assert code == 0
    assert LONG.join(["flights.", ""]) in lines
    assert "flights.weekly-join" in lines
    assert "  progress   0 of 7, 0 of 7" in lines or "  state      enabled" in lines
    assert not any("…" in line or "default." in line for line in lines)


def test_a_table_that_fits_is_a_table(running: DevProcess) -> None:
    assert at_terminal(running, "program", "list")[1] == [
        "program       type  runs",
        "flights.join  bash  echo first; sleep 1; echo second; false",
    ]


def test_a_job_shows_how_its_run_ended_and_a_log_is_followed_to_its_end(running: DevProcess) -> None:
    assert running.run("event", "emit", "partitions", "one", "day=1").code == 0
    running.until(lambda: running.run("run", "list", "-o", "json").json)

    followed = running.run("run", "logs", "--follow", "flights.at-once.1.1.r1")

    assert (followed.code, followed.out) == (1, "first\nsecond\n"), "it failed"
    _, lines = at_terminal(running, "job", "list", "--app", "flights")
    assert lines[0].split() == ["job", "state", "attempts", "duration", "satisfied", "reason"]
    assert lines[1].split()[:3] == ["flights.at-once.1.1", "FAILED", "1"]
    assert lines[1].endswith("exit code 1: second")
    assert at_terminal(running, "job", "show", "flights.at-once.1.1")[0] == 0
    assert at_terminal(running, "job", "why", "flights.at-once.1.1")[1][0] == "flights.at-once.1.1 is LAUNCHED"
    assert running.run("job", "list", "--app", "other").out == "no such jobs\n"


def test_a_pause_keeps_and_dropping_asks(running: DevProcess) -> None:
    running.run("event", "emit", "partitions", "flights", "day=1", "day=2")
    name = "flights.weekly-join"
    running.until(lambda: "2 of 7" in running.run("schedule", "show", name).out)

    said = running.run("schedule", "pause", name)
    assert (said.code, said.out) == (0, f"{name} is paused, keeping events (generation 2)\n")
    assert running.run("schedule", "list", "--state", "disabled").out == "no such schedules\n"
    assert name in running.run("schedule", "list", "--state", "paused").out
    assert "2 of 7" in running.run("schedule", "show", name).out

    asked = [
        f"~ schedule {name} would be paused",
        "    2 of 7 of '7 new partitions of flights' would be lost",
    ]
    refused = running.run("schedule", "pause", name, "--drop")
    assert refused.code == 7
    assert refused.out.splitlines() == asked
    assert "--yes" in refused.err
    assert running.run("schedule", "pause", name, "--drop", "--dry-run").out.splitlines() == asked
    code, lines = at_terminal(running, "schedule", "pause", name, "--drop", answer="n")
    assert (code, lines[:2]) == (7, asked)
    assert "2 of 7" in running.run("schedule", "show", name).out

    code, lines = at_terminal(running, "schedule", "pause", name, "--drop", answer="y")
    assert code == 0
    assert [lines[-2].strip(), lines[-1]] == [
        f"{name} is paused, dropping events (generation 3)",
        "  dropped: 2 of 7 of '7 new partitions of flights'",
    ]
    assert "is paused" in running.run("schedule", "show", name).out
    assert running.run("schedule", "disable", name).out == f"{name} is disabled (generation 4)\n", "nothing to lose"
    assert running.run("schedule", "enable", name).code == 0


def test_a_copied_file_does_not_take_the_schedules_of_another(running: DevProcess) -> None:
    for answer in ("", "n"):
        code, lines = (
            at_terminal(running, "deploy", "mine.py", answer=answer)
            if answer
            else ((said := running.run("deploy", "mine.py")).code, said.out.splitlines())
        )
        assert code == 7
        assert lines[0].startswith("flights at http://127.0.0.1:")
        assert lines[1].startswith("  installation: ")
        assert "- schedule flights.weekly-join would be deleted: not in the deployed app" in lines
        assert any(line.endswith("app.py") and "deployed from another file" in line for line in lines)
        assert "schedules of the app that are not in this file would be deleted:" in lines
        assert "  flights.hourly" in lines
    assert running.run("deploy", "mine.py", "--dry-run").code == 0
    assert len(running.run("schedule", "list", "-o", "json").json) == 4
    assert running.run("schedule", "delete", "flights.hourly").code == 7
    assert running.run("program", "delete", "flights.join").code == 7
    assert running.run("deploy", "app.py").out.splitlines()[-1] == "flights is deployed: nothing has changed"


def test_what_runs_tonight(running: DevProcess) -> None:
    _, lines = at_terminal(running, "schedule", "next", "--count", "2")

    assert lines[0].split() == ["fires", "at", "schedule", "state", "starts", "when"]
    assert [line.split()[2] for line in lines[1:]] == ["flights.hourly", "flights.hourly"]
    assert running.run("schedule", "next", "--within", "1m").out == "no schedule ticks within 1m\n"
    assert running.run("schedule", "next", "flights.hourly", "--within", "1m").code == 2


def test_mistakes_are_reported_without_dollars(running: DevProcess) -> None:
    for arguments, said, code in (
        (("schedule", "show", "weekly"), "error: weekly: is not of the form app.name or namespace.app.name\n", 2),
        (("schedule", "show", "flights.x"), "error: schedule 'flights.x' was not found\n", 3),
        (("job", "show", "flights.x.1.1"), "error: job 'flights.x.1.1' was not found\n", 3),
        (("schedule", "pause", "flights.hourly", "--until", "soon"), "error: until: must be an instant", 2),
    ):
        found = running.run(*arguments)
        assert found.err.startswith(said), found
        assert found.code == code, found


def test_the_version_and_completion(tmp_path: Path) -> None:
    dev = DevProcess(tmp_path)
    assert re.fullmatch(r"streamsched \d+\.\d+\.\d+\n", dev.run("--version").out)
    command = Path(sys.executable).with_name("streamsched")
    done = subprocess.run(
        [command],
        env=dev.environ(_STREAMSCHED_COMPLETE="complete_bash", COMP_WORDS="streamsched sch", COMP_CWORD="1"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["schedule"]
