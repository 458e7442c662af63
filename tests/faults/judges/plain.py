"""Trials by plain loads: every event must come home, and the jobs that the model wants must be launched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tests.faults.judges.homes import judge_changes, judge_homes
from tests.faults.judges.jobs import judge_jobs
from tests.faults.judges.log import Log
from tests.faults.load.plain_load import PlainLoad
from tests.support.judgement import Judgement
from tests.trial import Counts, Trial


class PlainTrial(Trial):
    """A trial that is judged by what the log has of its loads."""

    def __init__(self, log: Log, *loads: PlainLoad) -> None:
        self.log, self.loads = log, loads
        log.begin(*(load.name for load in loads))

    async def judge(self) -> Judgement:
        await self.log.look(quiet_s=1.0)
        verdict = Judgement()
        for load in self.loads:
            judge_load(self.log, load, verdict)
        return verdict

    def counts(self) -> Counts:
        return {"events": sum(len(load.traffic.emitted) for load in self.loads)}

    def arrivals(self) -> Iterator[tuple[str, float, float]]:
        """Of each arrival at the home of a schedule: the event's id, and when it was sent and came, in seconds since
        the epoch.
        """
        sent_at = {event_id: sent for load in self.loads for event_id, sent in load.traffic.sent_at.items()}
        for event_id, at in self.log.came_home():
            if event_id in sent_at:
                yield event_id, sent_at[event_id], at.timestamp()


def judge_load(log: Log, load: PlainLoad, into: Judgement) -> None:
    """Every event once at every schedule that listens, every change in force, and the jobs that the model wants. While
    something has not come home, no job can be right.
    """
    homes = log.homes_of(load.name)
    judge_homes(homes, load.traffic.emitted, (), into)
    judge_changes(homes, load, load.traffic.after, into)
    if not into.lost:
        jobs = [job for job in log.jobs if job.schedule is not None and job.schedule.app == load.name]
        judge_jobs(homes, jobs, datetime.now(UTC), into)
