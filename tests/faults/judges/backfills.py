"""Whether each item of a backfill became one job that ran once; and of a cancelled one, no more than had been made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never

from streamsched.domain.backfills.backfill import BackfillState, ItemState
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.signals.signal import Drop
from tests.faults.judges.homes import Asked, Homes
from tests.faults.judges.jobs import Stored
from tests.faults.judges.runs import judge_job
from tests.faults.load.backfills import AskedBackfill, mark_of
from tests.faults.load.requests import Requests
from tests.support.judgement import Judgement

Row = Mapping[str, Any]


def judge_backfills(homes: Homes, there: Stored, requests: Requests, asked: Asked, into: Judgement) -> None:
    """Every accepted backfill has ended with all its jobs, there are no others, and no more were active than it
    allows.
    """
    backfills, unsure = requests.backfills, requests.unsure
    for contradiction in backfills.contradictions:
        into.spoil(contradiction)
    jobs: dict[str, dict[int, Row]] = defaultdict(dict)
    for job, row in there.jobs.items():
        name = row["backfill"]
        if name is None or name in unsure:
            continue
        number = job.removeprefix(f"{name}.")
        if name not in backfills.accepted or number not in there.backfills.get(name, {"found": ()})["found"]:
            into.double(f"job {job} is of a backfill, but no user requested it")
        else:
            jobs[name][int(number)] = row
    for name in there.backfills.keys() - backfills.accepted.keys() - unsure:
        into.double(f"backfill {name} is there, but no user requested it")
    for name, wanted in backfills.accepted.items():
        row = there.backfills.get(name)
        if row is None:
            into.miss(f"backfill {name} was accepted and never stored")
            continue
        _judge_items(row, wanted, there, into)
        _judge_state(row, wanted, jobs[name], homes, into)
        for number, job in jobs[name].items():
            if not _cancelled(job, row):
                judge_job(job, homes, there, asked, into, alone=True)
            _judge_item(row["found"][str(number)], job, wanted, there, into)
        if backfills.most_active[name] > wanted.max_active:
            into.double(f"backfill {name} had {backfills.most_active[name]} active jobs, not {wanted.max_active}")


def _judge_items(row: Row, wanted: AskedBackfill, there: Stored, into: Judgement) -> None:
    """Each of its span once, but for what is left out because it is known; as many as were promised."""
    name, items = row["id"], row["found"]
    if wanted.promised != (row["items"], row["skipped"]) or row["items"] != len(items):
        into.spoil(f"backfill {name} has {len(items)} items, {row['skipped']} left out, not {wanted.promised}")
    marks = Counter(mark_of(ready) for _, ready in items.values())
    for mark, times in marks.items():
        if mark not in wanted.span:
            into.double(f"backfill {name} has an item {mark} that no user requested")
        elif times > 1:
            into.double(f"backfill {name} has {times} items {mark}", times - 1)
    left_out = sorted(wanted.span - marks.keys())
    if wanted.exact and len(left_out) > row["skipped"]:
        into.miss(f"backfill {name} has no items {left_out[:5]}", len(left_out) - row["skipped"])
    if wanted.everything and row["skipped"]:
        into.miss(f"backfill {name} of all has left out {row['skipped']}", row["skipped"])
    if wanted.exact and not wanted.everything and (unknown := set(left_out) - _marks(wanted, there)):
        into.miss(f"backfill {name} has left out {sorted(unknown)[:5]}, for which there is no other job", len(unknown))


def _marks(wanted: AskedBackfill, there: Stored) -> set[str]:
    """Of its span what other jobs of the schedule are about: the same tick, or the same key."""
    others = [
        row["ready"]
        for row in there.jobs.values()
        if row["schedule"] == wanted.schedule and row["backfill"] != wanted.id
    ]
    keys = {ready["key"] for ready in others if ready.get("key")}
    events = [event["data"] for ready in others for event in ready.get("events", ())]
    ticks = {datetime.fromisoformat(data["due_at"]).isoformat() for data in events if "due_at" in data}
    return {mark for mark in wanted.span if mark in ticks or _key_of(mark) in keys}


def _key_of(mark: str) -> str:
    """Of the columns in the order of their names, which is that of `per` here."""
    return "/".join(part.partition("=")[2] for part in mark.split())


def _judge_state(row: Row, wanted: AskedBackfill, jobs: Mapping[int, Row], homes: Homes, into: Judgement) -> None:
    """It is completed with all its jobs, or it is cancelled, as somebody wanted, with those that it has made."""
    name, items = row["id"], {int(number): ItemState(state) for number, (state, _) in row["found"].items()}
    made = {number for number, state in items.items() if state is not ItemState.WAITING}
    match BackfillState(row["state"]):
        case BackfillState.RUNNING | BackfillState.PAUSED:
            into.miss(f"backfill {name} is still {row['state']}: {row['reason']}")
            return
        case BackfillState.COMPLETED:
            made = set(items)
            if wanted.cancelled:
                into.spoil(f"backfill {name} was cancelled and has completed")
        case BackfillState.CANCELLED:
            if not wanted.cancelled and not _deleted(row, homes):
                into.spoil(f"backfill {name} is cancelled, which no user requested: {row['reason']}")
        case state:
            assert_never(state)
    if lost := sorted(made - jobs.keys()):
        into.miss(f"backfill {name} has no jobs {lost[:5]}", len(lost))
    if more := sorted(jobs.keys() - made | jobs.keys() & wanted.never):
        into.double(f"backfill {name} was cancelled and has made the jobs {more[:5]}", len(more))
    counts = Counter(items.values())
    if counts[ItemState.ACTIVE]:
        into.miss(f"backfill {name} has ended and has {counts[ItemState.ACTIVE]} active items")
    shown = {state: row[state.lower()] for state in ItemState if state is not ItemState.WAITING}
    if any(counts[state] != count for state, count in shown.items()):
        into.spoil(f"backfill {name} shows {shown} and has {counts}")


def _cancelled(job: Row, backfill: Row) -> bool:
    """Whether the backfill ended it by its own end."""
    ended = job["state"] == JobState.ABORTED and backfill["state"] == BackfillState.CANCELLED
    return ended and backfill["id"] in job["reason"]


def _judge_item(item: tuple[str, Row], job: Row, wanted: AskedBackfill, there: Stored, into: Judgement) -> None:
    """The job is what the item says, and is muted as was requested; only a launched one has a run that began, and the
    item says how it ended. A run that a change of the schedule ended before it began is KILLED.
    """
    state, ready = item
    runs = [there.runs[run] for run in there.runs_of.get(job["id"], ())]
    if _content(job["ready"]) != _content(ready) or job["schedule"] != wanted.schedule:
        into.spoil(f"job {job['id']} has another key, tick or other events than its item")
    if any(bool(each["muted"]) != wanted.muted for each in (job, *runs)):
        into.spoil(f"job {job['id']} is {'not ' if wanted.muted else ''}muted")
    ids = there.runs_of.get(job["id"], ())
    began = [run for run in ids if there.started[run] or there.runs[run]["state"] != RunState.KILLED]
    if began and job["state"] != JobState.LAUNCHED:
        into.double(f"job {job['id']} is {job['state']} and has runs: {began}")
    completed = any(each["state"] == RunState.COMPLETED for each in runs)
    ended = ItemState.SUCCEEDED if completed else ItemState.FAILED if runs else ItemState.DROPPED
    if state not in {ended, ItemState.ACTIVE, ItemState.WAITING}:  # those are judged with the state of the backfill
        into.spoil(f"job {job['id']} is {state} for its backfill, not {ended}")


def _content(ready: Row) -> tuple[Any, ...]:
    return mark_of(ready), ready.get("key", ""), ready["contributions"], ready.get("events")


def _deleted(row: Row, homes: Homes) -> bool:
    """Whether its schedule was deleted after it began."""
    log = homes.get(f"schedule:{row['schedule']}", ())
    return any(isinstance(signal, Drop) and at >= row["created_at"] for at, signal in log)
