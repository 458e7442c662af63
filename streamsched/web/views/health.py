"""The components of an installation, each as one line, and the first sentence of the home page. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from markupsafe import Markup

from streamsched.admin.overview import Overview
from streamsched.catalog.upcoming_ticks import UpcomingTick
from streamsched.store.web.page_reads import WaitingJob, WorkCounts
from streamsched.web.views.names import schedule_href, short_name
from streamsched.web.views.times import TimeTexts, duration_words

#: Work that waits or runs as it should; its number is shown elsewhere.
_WORK: Final = frozenset({"jobs that wait", "runs active"})
#: Waiting entries and seconds from which a queue is shown as behind.
_MANY: Final = 1000
_LONG_S: Final = 30.0


class HealthLine(NamedTuple):
    """A component: its tone, its name, and a sentence."""

    tone: str
    name: str
    text: str


def health_lines(overview: Overview) -> list[HealthLine]:
    """The shards as one line, and a line for each queue that is behind or has no process; else one that all is well. A
    clock that has jumped comes first.
    """
    return [*_clock(overview), _shards(overview), *_queues(overview)]


def _clock(overview: Overview) -> list[HealthLine]:
    if overview.doubt is None:
        return []
    then = "nothing expires, is killed or deleted until it is right or `streamsched clock confirm` says so"
    return [HealthLine("bad", "clock", f"PostgreSQL's clock {overview.doubt}; {then}")]


class Headline(NamedTuple):
    """`tone`: of the worst that it says."""

    tone: str
    text: Markup


def headline(
    counts: WorkCounts,
    *,
    waiting: Sequence[WaitingJob],
    missed: int,
    missing: int,
    health: Sequence[HealthLine],
    upcoming: Sequence[UpcomingTick],
    times: TimeTexts,
) -> Headline:
    """What is wrong, the worst first; else that nothing is; then the next tick."""
    bad = [f"{line.name}: {line.text}" for line in health if line.tone == "bad"]
    if counts.failed:
        runs = "run" if counts.ended == 1 else "runs"
        bad.append(f"{counts.failed:,} of {counts.ended:,} {runs} failed in the last 24 hours")
    if missed:
        bad.append("a job missed its deadline" if missed == 1 else f"{missed:,} jobs missed their deadlines")
    if missing:
        bad.append("what is expected is missing" if missing == 1 else f"{missing:,} expectations are missing")
    wait = [f"{line.name}: {line.text}" for line in health if line.tone == "wait"]
    if waiting:
        number = max(counts.waiting, len(waiting))
        jobs = "1 job waits" if number == 1 else f"{number:,} jobs wait, the longest"
        wait.append(f"{jobs} for {times.distance(waiting[0].since)}")
    tone = "bad" if bad else "wait" if wait else "ok"
    found = "; ".join(bad + wait) or "no run failed in the last 24 hours, and no job waits"
    text = Markup("<b>{}.</b>").format(found[:1].upper() + found[1:])
    if upcoming:
        ref = upcoming[0].schedule.definition.ref
        text += Markup(' Next is <a href="{}">{}</a>, {}.').format(
            schedule_href(ref), short_name(ref), times.relative_text(upcoming[0].fires_at)
        )
    return Headline(tone, text)


def records_a_second(overview: Overview) -> float:
    """What the shards that work reported lately."""
    return sum(each.report.records_s for each in overview.shards if each.report is not None and each.state == "ok")


def _shards(overview: Overview) -> HealthLine:
    states = Counter(shard.state for shard in overview.shards)
    behind = sum(shard.total_lag for shard in overview.shards)
    rate = records_a_second(overview)
    number = len(overview.shards)
    if states["ok"] == number:
        lag = "nothing waits in the log" if not behind else f"{behind:,} records wait in the log"
        tone = "ok" if behind < _MANY else "wait"
        return HealthLine(tone, "shards", f"all {number} work; {rate:,.1f} records a second, {lag}")
    words = {"untold": "not reported yet"}
    listed = ", ".join(f"{count} {words.get(state, state)}" for state, count in states.most_common())
    starting = states["ok"] + states["starting"] + states["untold"] == number
    return HealthLine("wait" if starting else "bad", "shards", f"{listed}; {behind:,} records wait in the log")


def _queues(overview: Overview) -> list[HealthLine]:
    found: list[HealthLine] = []
    for depth, owner in overview.queues:
        if depth.name in _WORK:
            continue
        if depth.part is not None and owner is None:
            found.append(HealthLine("bad", depth.name, f"no process works it off; {depth.waiting:,} wait"))
        elif depth.waiting >= _MANY or depth.oldest_s >= _LONG_S:
            oldest = duration_words(timedelta(seconds=depth.oldest_s))
            age = f", the oldest since {oldest}" if depth.oldest_s else ""
            found.append(HealthLine("wait", depth.name, f"{depth.waiting:,} wait{age}"))
    return found or [HealthLine("ok", "queues", "none is behind")]
