"""Runs over time as SVG: a bar for each run of a list, and the times of one run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from streamsched.store.runs.run_queries import RunRecord
from streamsched.web.views.states import RUN_WORDS
from streamsched.web.views.times import duration_words


class TimeFrame(NamedTuple):
    """What a list of bars spans."""

    begin: datetime
    end: datetime

    def place(self, at: datetime) -> float:
        """Where an instant is, from 0 to 100."""
        whole = max(self.end - self.begin, timedelta(seconds=1))
        return max(0.0, min(100.0, 100 * ((at - self.begin) / whole)))


def frame_of(runs: Sequence[RunRecord], now: datetime) -> TimeFrame:
    """From the creation of the first run to the last end, or now while one is active."""
    begin = min((run.created_at for run in runs), default=now)
    return TimeFrame(begin, max((run.ended_at or now for run in runs), default=now))


def gantt_bar(run: RunRecord, frame: TimeFrame, now: datetime) -> Markup:
    """A thin bar while the run waited for its process, and a thick one while it ran."""
    created, end = frame.place(run.created_at), frame.place(run.ended_at or now)
    started = end if run.started_at is None else frame.place(run.started_at)
    word = RUN_WORDS[run.state]
    took = duration_words((run.ended_at or now) - (run.started_at or run.created_at))
    return Markup(
        '<svg class="gantt" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="fill-line" x="{:.2f}" y="5" width="{:.2f}" height="2"></rect>'
        '<rect class="fill-{}" x="{:.2f}" y="1" width="{:.2f}" height="10"></rect></svg>'
    ).format(f"{word.word}, {took}", created, max(0.0, started - created), word.tone, started, max(0.8, end - started))


class RunPhase(NamedTuple):
    """A part of the life of a run or its job: `share` of the whole in percent."""

    name: str
    tone: str
    begin: datetime
    took: str
    share: float


def phases(satisfied_at: datetime | None, run: RunRecord, now: datetime) -> list[RunPhase]:
    """Waiting for constraints, for a process, and running; without those that took no time."""
    marks: list[tuple[str, str, datetime]] = []
    if satisfied_at is not None and satisfied_at < run.created_at:
        marks.append(("waited for constraints", "wait", satisfied_at))
    marks.append(("waited for a process", "off", run.created_at))
    if run.started_at is not None:
        marks.append(("ran" if run.ended_at else "runs", RUN_WORDS[run.state].tone, run.started_at))
    ends = [mark[2] for mark in marks[1:]] + [run.ended_at or now]
    whole = max(ends[-1] - marks[0][2], timedelta(milliseconds=1))
    return [
        RunPhase(name, tone, begin, duration_words(end - begin), 100 * max(0.0, (end - begin) / whole))
        for (name, tone, begin), end in zip(marks, ends, strict=True)
    ]


def phase_bar(parts: Sequence[RunPhase]) -> Markup:
    """The phases beside each other, as long as they took."""
    at, drawn = 0.0, list[Markup]()
    for each in parts:
        drawn.append(
            Markup('<rect class="fill-{}" x="{:.2f}" width="{:.2f}" height="12"><title>{}</title></rect>').format(
                each.tone, at, max(0.4, each.share), f"{each.name} {each.took}"
            )
        )
        at += each.share
    label = ", ".join(f"{each.name} {each.took}" for each in parts)
    return Markup(
        '<svg class="phases" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(drawn))
