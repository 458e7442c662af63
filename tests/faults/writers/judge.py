"""What a trial of writers and watchers finds: readers never see half a commit, events name exactly what is visible."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

#: Of a commit: partition key → rows.
Rows = Mapping[str, int]


@dataclass(slots=True)
class Verdict:
    """Counts, with a few words on each.

    Attributes:
        half: commits that a reader saw in part, and events that differ from their commit or have none.
        lost: commits that a writer has confirmed and that are not visible, visible ones without an event, and
            partitions that did not count.
        doubled: partitions that counted more than once.
    """

    half: int = 0
    lost: int = 0
    doubled: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.half or self.lost or self.doubled)

    def __str__(self) -> str:
        return f"half {self.half} lost {self.lost} doubled {self.doubled}"


def judge(
    *,
    visible: Mapping[str, Rows],
    confirmed: Collection[str],
    events: Sequence[tuple[str, Rows]],
    counted: int,
    seen_half: Sequence[str] = (),
) -> Verdict:
    """The verdict on a trial that has ended.

    Args:
        visible: the commits that a reader sees at the end.
        confirmed: the commits that were confirmed to their writers.
        events: those in the log, repeated ones too.
        counted: the partitions that a schedule counted, each commit's own.
        seen_half: what readers found meanwhile.
    """
    found = Verdict(half=len(seen_half), words=list(seen_half[:5]))
    for commit in sorted(set(confirmed) - visible.keys()):
        found.lost += 1
        found.words.append(f"lost: {commit} is confirmed and not visible")
    for commit in sorted(visible.keys() - {name for name, _ in events}):
        found.lost += 1
        found.words.append(f"lost: {commit} has no event")
    for commit, rows in events:
        if visible.get(commit) != rows:
            found.half += 1
            found.words.append(f"half: the event of {commit} has {rows}, visible is {visible.get(commit)}")
    wanted = sum(len(rows) for rows in visible.values())
    if counted != wanted:
        found.lost += max(0, wanted - counted)
        found.doubled += max(0, counted - wanted)
        found.words.append(f"{counted} partitions counted, and {wanted} are visible")
    return found
