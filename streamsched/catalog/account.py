"""What became of an event, in plain words: each verdict with what followed from it, and what silence may mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from streamsched.domain.duration import duration_text
from streamsched.domain.finding import AtSchedule, Finding, Repeated, Unheard, Unread
from streamsched.domain.job import JobState
from streamsched.domain.lateness import OnLate
from streamsched.domain.leaf import leaf_id
from streamsched.domain.trigger import leaves
from streamsched.domain.verdict import Verdict
from streamsched.ports.verdicts import Standing, Taker, Trail


@dataclass(frozen=True, slots=True)
class Line:
    """One finding, told.

    Attributes:
        text: a sentence.
        then: sentences on what followed, or stands in the way.
        taker: the job that took the event.
        standing: its schedule as it stands now.
    """

    finding: Finding
    text: str
    then: tuple[str, ...] = ()
    taker: Taker | None = None
    standing: Standing | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The whole answer; `hints` say what could be missing from it, and why."""

    event: str
    summary: str
    lines: tuple[Line, ...]
    hints: tuple[str, ...]
    behind: int


def account(trail: Trail, *, keep: timedelta) -> Account:
    """Tells a trail; `keep`: how long verdicts are kept, nothing when they are not."""
    lines = tuple(_line(trail, finding, taker) for finding, taker in zip(trail.findings, trail.takers, strict=True))
    return Account(trail.event, _summary(trail), lines, tuple(_hints(trail, keep)), trail.behind)


def _summary(trail: Trail) -> str:
    if not trail.findings:
        return f"nothing is known of an event '{trail.event}'"
    told: list[str] = []
    for verdict in Verdict:
        count = sum(each.verdict is verdict for each in trail.findings)
        if count:
            told.append(verdict.replace("_", " ") + (f" {count} times" if count > 1 else ""))
    jobs = sorted({taker.joined or taker.job for taker in trail.takers if taker is not None})
    sources = {each.source for each in trail.findings if each.source}
    of = f" of {len(sources)} sources" if len(sources) > 1 else ""
    return f"event '{trail.event}'{of}: {', '.join(told)}" + (f"; with {_listed(jobs)}" if jobs else "")


def _hints(trail: Trail, keep: timedelta) -> Iterator[str]:
    if trail.behind:
        yield f"{trail.behind} turns' verdicts are still on their way here: ask again in a moment"
    if trail.findings:
        return
    if not keep:
        yield "verdicts are switched off (STREAMSCHED_VERDICTS_KEEP=0)"
        return
    yield f"verdicts are kept for {duration_text(keep)}; whatever came before then is not known any more"
    yield "an event that was never acknowledged may still be with its emitter: in a retry, or in its spool"
    yield "ids are compared letter by letter; one that names no id is known by its place in the log (log:topic/…)"


def _line(trail: Trail, finding: Finding, taker: Taker | None) -> Line:
    ground = finding.ground
    match ground:
        case AtSchedule():
            standing = trail.standings.get(ground.schedule)
            text, then = _at_schedule(finding, ground, standing), tuple(_since(ground, taker, standing))
            return Line(finding, text, then, taker, standing)
        case Repeated(key=key):
            when = "" if finding.since is None else f", seen first at {_at(finding.since)}"
            ago = "" if finding.since is None else f" ({_long(finding.at - finding.since)} before)"
            return Line(
                finding, f"a repeat about {key}{when}{ago}: the same id from the same source; it changed nothing"
            )
        case Unheard(key=key):
            heard = tuple(_would_hear(finding.at, each) for each in trail.listeners.get(key, ()))
            none = ("no schedule that exists now listens to it either: is the name right?",)
            return Line(finding, f"no schedule listened to {key}", heard or none)
        case Unread(place=place, path=path, reason=reason):
            then = (f"the record {place} is in topic dead-letter as it came",)
            return Line(finding, f"could not be read: {path} {reason}", then)
        case _:
            assert_never(ground)


def _at_schedule(finding: Finding, ground: AtSchedule, standing: Standing | None) -> str:
    schedule = f"{ground.schedule} (generation {ground.generation})" if ground.generation else str(ground.schedule)
    verdict = ground.judged.verdict
    happened = "" if finding.since is None else f": it happened at {_at(finding.since)}"
    if finding.since is not None:
        happened += f", {_long(finding.at - finding.since)} before"
    match verdict:
        case Verdict.COUNTED:
            of = _listed([_leaf(leaf, standing) for leaf in ground.judged.leaves])
            under = f", under {_listed(ground.judged.cells)}" if ground.judged.cells else ""
            came = f", though it came late{happened}" if ground.late is OnLate.ACCEPT else ""
            return f"counted in {schedule} towards {of}{under}{came}"
        case Verdict.UNMATCHED:
            wanted = f": it wants {standing.record.definition.trigger}" if _same(ground, standing) and standing else ""
            return f"{schedule} listens to it, but nothing of its trigger accepted it{wanted}"
        case Verdict.LATE:
            side = "put aside on topic late" if ground.late is OnLate.SIDE else "dropped"
            return f"came too late for {schedule} and was {side}{happened}"
        case Verdict.DISABLED:
            gone = "was disabled" if ground.generation else "was not there any more"
            return f"{schedule} {gone} when it came, so it did not count"
        case Verdict.PARKED:
            return f"{schedule} was in error when it came: it is parked until the schedule is replayed"
        case Verdict.DUPLICATE | Verdict.NO_LISTENER | Verdict.DEAD_LETTERED:
            return f"{verdict} in {schedule}"  # no schedule says so


def _since(ground: AtSchedule, taker: Taker | None, standing: Standing | None) -> Iterator[str]:
    """What became of it after it counted."""
    if ground.judged.verdict is not Verdict.COUNTED:
        return
    if taker is not None:
        goes_on = taker.state in {JobState.COALESCED, JobState.LAUNCHED}
        why = f": {taker.reason}" if taker.reason and not goes_on else ""
        joined = f", in {taker.joined}" if taker.joined else ""
        yield f"job {taker.job} took it ({taker.state}{joined}{why})"
        if taker.runs:
            *before, last = taker.runs
            yield f"run {last} is {taker.run_state}" + (f", after {_listed(before)}" if before else "")
    elif standing is None or not standing.record.exists:
        yield "the schedule has been deleted since; no job took it"
    elif ground.generation < standing.record.stands_from:
        record = standing.record
        how = "stands" if record.enabled else "is disabled"
        yield (
            f"no job took it: generation {record.generation} {how} since {_at(record.updated_at)}, and kept nothing of "
            "what had come before"
        )
    else:
        changed = "" if ground.generation == standing.record.generation else ", unless a change dropped its leaf"
        open_yet = "" if standing.progress is None else ": " + "; ".join(_open(standing.progress))
        paused = "" if standing.record.enabled else "; the schedule is paused"
        yield f"no job took it yet{changed}{open_yet}{paused}"


def _open(node: object) -> Iterator[str]:
    """The leaves of an explanation: how far each has come."""
    if not isinstance(node, dict):
        return
    children = node.get("children") or ()
    for child in children:
        yield from _open(child)
    if not children:
        yield f"{node.get('have', 0)} of {node.get('need', 0)} ({node.get('text', '')})"


def _would_hear(at: datetime, standing: Standing) -> str:
    record, since = standing.record, _at(standing.record.updated_at)
    if not record.listens:
        return f"{record.definition.ref} would, but it is disabled since {since}"
    return f"{record.definition.ref} listens to it now, since {since}" + (
        "" if record.updated_at > at else ", but did not then"
    )


def _leaf(leaf: str, standing: Standing | None) -> str:
    """A leaf in words, as far as the definition still has it."""
    wanted = () if standing is None else leaves(standing.record.definition.trigger)
    return next((str(each) for each in wanted if leaf_id(each) == leaf), leaf)


def _same(ground: AtSchedule, standing: Standing | None) -> bool:
    return standing is not None and standing.record.generation == ground.generation


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + f" and {names[-1]}"


def _at(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"


def _long(span: timedelta) -> str:
    """To the second, or to the millisecond below one."""
    return duration_text(
        timedelta(milliseconds=span // timedelta(milliseconds=1))
        if span < timedelta(seconds=1)
        else timedelta(seconds=span // timedelta(seconds=1))
    )
