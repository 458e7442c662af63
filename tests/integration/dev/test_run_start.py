"""`run start` against a running `streamsched dev`: waits, follows the log, and exits as the run does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

APP = """
from streamsched import App, partitions, program

app = App("hand")
said = "echo day is $STREAMSCHED_ARG_DAY, key is $STREAMSCHED_ARG_TRIGGER_KEY"
tell = app.bash("tell", said + "; exit $STREAMSCHED_ARG_CODE")
fails = app.bash("fails", "grep -c day= $STREAMSCHED_RUN_FILE; exit ${STREAMSCHED_ARG_CODE:-3}")
app.schedule("failing", fails, when=partitions("refunds"), overlap="queue")
app.schedule("after", app.bash("next", "true"), when=program(fails, "succeeded"))
app.schedule(
    "daily", tell, when=partitions("sales").per("date"), properties={"day": "monday", "code": "0"}, max_concurrent=1
)
"""


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    folder: Path = tmp_path_factory.mktemp("hand")
    (folder / "app.py").write_text(APP)
    dev = DevProcess(folder)
    dev.start()
    try:
        assert dev.run("deploy", "app.py").code == 0
        yield dev
    finally:
        dev.close()


def test_a_submitted_schedule_is_followed_to_its_end(hand: DevProcess) -> None:
    given = ("--schedule", "hand.daily", "--key", "date=2013-01-01", "--arg", "day=sunday", "--reason", "ann")

    said = hand.run("run", "start", *given, "--idempotency-key", "one", "--wait")

    assert said.code == 0, said
    assert "hand.daily.submitted-one is submitted" in said.out
    assert "day is sunday, key is 2013-01-01\n" in said.out
    again = hand.run("run", "start", *given, "--idempotency-key", "one", "--wait")
    assert "was submitted before" in again.out
    assert "day is sunday" in again.out
    assert "a submission by hand: ann" in hand.run("job", "why", "hand.daily.submitted-one").out
    jobs = hand.run("job", "list", "-o", "json", "--schedule", "hand.daily").json
    assert [each["id"].endswith("submitted-one") for each in jobs].count(True) == 1


def test_the_exit_code_is_that_of_the_run(hand: DevProcess) -> None:
    submitted = hand.run("run", "start", "hand.tell", "--arg", "code=7", "--wait")
    at_once = hand.run("run", "start", "hand.tell", "--arg", "code=8", "--now", "--wait")

    assert (submitted.code, at_once.code) == (7, 8)


def test_a_job_that_ends_without_a_run_says_why(hand: DevProcess) -> None:
    assert hand.run("schedule", "pause", "hand.daily").code == 0
    given = ("--schedule", "hand.daily", "--key", "date=2013-01-02")
    submitted = hand.run("run", "start", *given, "-o", "json").json["job"]
    assert hand.run("job", "cancel", submitted, "--reason", "bob").code == 0

    said = hand.run(
        *("run", "start", "--schedule", "hand.daily", "--key", "date=2013-01-02", "--wait"),
        *("--idempotency-key", submitted.rpartition("submitted-")[2]),
    )

    assert said.code == 1, said
    assert "is ABORTED: cancelled: bob" in said.err
    assert hand.run("schedule", "resume", "hand.daily").code == 0


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ((), 2, "name either a program or a --schedule"),
        (("hand.tell", "--schedule", "hand.daily"), 2, "name either a program or a --schedule"),
        (("hand.nowhere",), 3, "program 'hand.nowhere' was not found"),
        (("--schedule", "hand.nowhere"), 3, "schedule 'hand.nowhere' was not found"),
        (("--schedule", "hand.daily"), 2, "key: is missing: the schedule has one accumulation for each date"),
        (("--schedule", "hand.daily", "--key", "day=1"), 2, "key: names day, but the schedule's key is date"),
        (("--schedule", "hand.daily", "--now"), 2, "--now: starts a program without a job"),
        (("hand.tell", "--key", "date=2013-01-02"), 2, "--key: is for a --schedule"),
        (("hand.tell", "--arg", "x"), 2, "'x' is not of the form name=value"),
        (("hand.tell", "--force"), 2, "are only for --now"),
        (("hand.tell", "--idempotency-key", "é"), 2, "must be printable ASCII"),
    ],
)
def test_what_cannot_be_started_is_refused(hand: DevProcess, given: tuple[str, ...], code: int, said: str) -> None:
    before = hand.run("job", "list", "-o", "json").json

    refused = hand.run("run", "start", *given)

    assert (refused.code, said in refused.err) == (code, True), refused
    assert hand.run("job", "list", "-o", "json").json == before


def test_failed_runs_are_shown_and_repeated_and_a_muted_one_starts_nothing(hand: DevProcess) -> None:
    for day in ("day=1", "day=2"):
        assert hand.run("event", "emit", "partitions", "refunds", day).code == 0
        job = f"hand.failing.1.{day[-1]}"
        hand.until(lambda job=job: hand.run("run", "show", f"{job}.r1", "-o", "json").out.count('"FAILED"'))
    some = ("run", "rerun", "--failed", "--schedule", "hand.failing", "--since", "1h")

    asked = hand.run(*some)

    assert asked.code == 7, asked
    assert "hand.failing.1.1" in asked.out
    assert "hand.failing.1.2" in asked.out
    assert "nothing was rerun" in asked.err
    muted = hand.run("run", "rerun", "hand.failing.1.1.r1", "--arg", "code=0", "--mute", "--reason", "ann", "--wait")
    assert muted.code == 0, muted
    assert hand.run("run", "logs", "hand.failing.1.1.rerun-1.r1").out == hand.run("run", "logs", f"{job[:-1]}1.r1").out
    made = hand.run(*some, "--arg", "code=0", "--yes", "-o", "json").json
    assert [each["job"] for each in made] == ["default.hand.failing.1.2.rerun-1"], "the first was rerun already"
    hand.until(lambda: '"COMPLETED"' in hand.run("run", "show", "hand.after.1.1.r1", "-o", "json").out)
    assert len(hand.run("job", "list", "--schedule", "hand.after", "-o", "json").json) == 1
    assert "was not rerun" in hand.run(*some, "--yes").out
    assert hand.run("run", "show", "hand.failing.1.1.rerun-1.r1", "-o", "json").json["rerunOf"] == (
        "default.hand.failing.1.1.r1"
    )
    shown = hand.run("run", "show", "hand.failing.1.1.rerun-1.r1").out
    assert re.search(r"^origin +by hand, a rerun of hand.failing.1.1.r1, muted: ann$", shown, re.MULTILINE)
    assert re.search(r"^code +0 +submission$", shown, re.MULTILINE)
    assert re.search(r"^trigger.job +hand.failing.1.1.rerun-1 +trigger$", shown.replace("default.", ""), re.MULTILINE)
    assert re.search(r"^1 +hand.failing.1.1.r1 +FAILED +- ", shown, re.MULTILINE)
    assert re.search(r"^2 +hand.failing.1.1.rerun-1.r1 +COMPLETED +1 ", shown, re.MULTILINE)
    assert max(len(line) for line in shown.splitlines() if not line.startswith("log path ")) <= 80, shown


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ((), 2, "name either a run or job, or --failed"),
        (("hand.x.1.1", "--failed"), 2, "name either a run or job, or --failed"),
        (("--failed",), 2, "--schedule: is missing"),
        (("--failed", "--schedule", "hand.nowhere"), 3, "schedule 'hand.nowhere' was not found"),
        (("--failed", "--schedule", "hand.daily", "--since", "x"), 2, "--since: 'x' is no duration"),
        (("hand.daily.1.99",), 3, "job 'hand.daily.1.99' was not found"),
        (("hand.daily.1.99.r1",), 3, "run 'hand.daily.1.99.r1' was not found"),
    ],
)
def test_what_cannot_be_rerun_is_refused(hand: DevProcess, given: tuple[str, ...], code: int, said: str) -> None:
    refused = hand.run("run", "rerun", *given)

    assert (refused.code, said in refused.err) == (code, True), refused
