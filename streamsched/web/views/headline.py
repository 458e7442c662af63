"""The first sentence of the home page: is anything wrong, and what is next? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from streamsched.catalog.upcoming_ticks import UpcomingTick
from streamsched.ports.web.page_reads import WaitingJob, WorkCounts
from streamsched.web.views.health import HealthLine
from streamsched.web.views.names import schedule_href, short
from streamsched.web.views.times import TimeTexts


class Headline(NamedTuple):
    """`tone`: of the worst that it says."""

    tone: str
    text: Markup


def headline(
    counts: WorkCounts,
    *,
    waiting: Sequence[WaitingJob],
    missed: int,
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
    wait = [f"{line.name}: {line.text}" for line in health if line.tone == "wait"]
    if waiting:
        number = max(counts.waiting, len(waiting))
        jobs = "1 job waits" if number == 1 else f"{number:,} jobs wait, the longest"
        wait.append(f"{jobs} for {times.since(waiting[0].since)}")
    tone = "bad" if bad else "wait" if wait else "ok"
    found = "; ".join(bad + wait) or "no run failed in the last 24 hours, and no job waits"
    text = Markup("<b>{}.</b>").format(found[:1].upper() + found[1:])
    if upcoming:
        ref = upcoming[0].schedule.definition.ref
        text += Markup(' Next is <a href="{}">{}</a>, {}.').format(
            schedule_href(ref), short(ref), times.ago(upcoming[0].fires_at)
        )
    return Headline(tone, text)
