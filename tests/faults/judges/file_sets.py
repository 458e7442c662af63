"""Whether a dataset has what its writers committed, once, and its events name exactly that: of writers and watchers
that are killed, and of attempts that are replaced or killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.faults.writers.processes import DAYS
from tests.support.judgement import Judgement

#: Of a commit: partition key → rows.
Rows = Mapping[str, int]
#: Half: commits that a reader saw in part, and events that differ from their commit or have none. Lost: commits that a
#: writer has confirmed and that are not visible, visible ones without an event, and partitions that did not count.
#: Doubled: partitions that counted more than once.
COMMITS: Final = ("half", "lost", "doubled")
#: Zombies: commits by attempts that slept before their commit until their successor had fenced. Twice: jobs whose rows
#: are visible more than once. Missing: jobs whose rows are not visible, or only in part, and attempts that failed
#: otherwise than by a fence. Events: partitions that a schedule counted too often, or not.
ATTEMPTS: Final = ("zombies", "twice", "missing", "events")


def judge_commits(
    *,
    visible: Mapping[str, Rows],
    confirmed: Collection[str],
    events: Sequence[tuple[str, Rows]],
    counted: int,
    seen_half: Sequence[str] = (),
) -> Judgement:
    """The verdict on a trial that has ended.

    Args:
        visible: the commits that a reader sees at the end.
        confirmed: the commits that were confirmed to their writers.
        events: those in the log, repeated ones too.
        counted: the partitions that a schedule counted, each commit's own.
        seen_half: what readers found meanwhile.
    """
    found = Judgement(COMMITS)
    for seen in seen_half:
        found.note("half", seen)
    for commit in sorted(set(confirmed) - visible.keys()):
        found.miss(f"{commit} is confirmed and not visible")
    for commit in sorted(visible.keys() - {name for name, _ in events}):
        found.miss(f"{commit} has no event")
    for commit, rows in events:
        if visible.get(commit) != rows:
            found.note("half", f"the event of {commit} has {rows}, visible is {visible.get(commit)}")
    wanted = sum(len(rows) for rows in visible.values())
    if counted < wanted:
        found.miss(f"{counted} partitions counted, and {wanted} are visible", wanted - counted)
    elif counted > wanted:
        found.double(f"{counted} partitions counted, and {wanted} are visible", counted - wanted)
    return found


@dataclass(frozen=True, slots=True)
class Slept:
    """What happened to one job: whether its first attempt slept before its commit until the second had fenced, and how
    both ended.
    """

    job: str
    replaced: bool
    ends: tuple[str, str]


def judge_attempts(slept: Sequence[Slept], rows: Sequence[tuple[str, int]], counted: int) -> Judgement:
    """The verdict on a trial that has ended.

    Args:
        rows: job and attempt of each row that a reader sees. Attempt n has n rows of each day.
        counted: the partitions that a schedule counted, each commit's own.
    """
    found, wanted = Judgement(ATTEMPTS), len(slept) * len(DAYS)
    if counted != wanted:
        found.note("events", f"{counted} partitions counted of {wanted}", abs(counted - wanted))
    seen = Counter(rows)
    for each in slept:
        attempts = sorted(attempt for job, attempt in seen if job == each.job)
        counts = [seen[each.job, attempt] for attempt in attempts]
        if len(attempts) > 1 or any(n > attempt * len(DAYS) for attempt, n in zip(attempts, counts, strict=True)):
            found.note("twice", f"{each.job} has the rows of {attempts}")
        elif not attempts or counts[0] < attempts[0] * len(DAYS):
            found.note("missing", f"{each.job} has {counts} rows")
        elif each.replaced and attempts == [1]:
            found.note("zombies", each.job)
        fenced = ("fenced", "committed") if each.replaced else each.ends
        if each.ends[1] != "committed" or each.ends != fenced:
            found.note("missing", f"ends of {each.job}: {each.ends}")
    return found
