"""Judges the clock of the database, which is the time of an installation, by the monotonic clock of each process. Pure.

A process measures the database's clock every few seconds, and in between counts by its monotonic clock
(`ClockView.now`). When a measurement is further from that count than `TOLERANCE`, one of the two clocks has jumped.
From then on the clock is in doubt: time goes on as the monotonic clock counts it, and nothing ends because of time
(`ClockView.in_doubt`).
All processes of an installation share a record of the last judgement (`ClockRecord`), whose number grows:

    fact          who finds it                                                   what the record says from then on
    jumped        a process whose count the clock has left                       how far it is ahead; in doubt
    overruled     one that has watched it all the time and saw no jump:          the clock is right
                  the other's monotonic clock stopped, as in a paused machine
    returned      one that finds the clock where its count is again              the clock is right
    accepted      one to which it kept its new time for `HELD`, when the jump    the clock is right
                  is small (`SMALL`); or for `HELD_LONG`, when it is large and
                  this machine's own clock says the same
    confirmed     a person                                                       the clock is right

After `returned` the doubt of each process lasts until two measurements `HELD` apart agree with its count. A process
without a count takes the record's word for how far the clock is ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from streamsched.domain.limits import add_duration

#: A larger difference between the database's clock and the count is a jump.
TOLERANCE: Final = timedelta(seconds=5)
#: By so much of the time that passed a steady clock may differ further: both clocks are slewed, each by 1/2000 at most.
DRIFT: Final = 0.001
#: For so long the clock must agree before it is believed again.
HELD: Final = timedelta(seconds=30)
HELD_LONG: Final = timedelta(minutes=5)
#: The largest jump that is accepted without a second clock: more than a paused machine or a standby server usually
#: loses, less than the hour of a wrong zone or a wrong daylight saving.
SMALL: Final = timedelta(minutes=45)
#: For so long a process waits for others to judge, when it starts on a machine whose own clock says another time.
FIRST: Final = timedelta(seconds=10)

#: Steps within the tolerance add up for at least so long before they are forgotten.
_WINDOW: Final = timedelta(seconds=30)
#: A measurement that took longer does not correct the count, unless it contradicts it.
_SLOW: Final = timedelta(seconds=1)
_NOTHING: Final = timedelta(0)


class ClockFact(StrEnum):
    """What was judged last. See above."""

    JUMPED = "jumped"
    OVERRULED = "overruled"
    RETURNED = "returned"
    ACCEPTED = "accepted"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """The last judgement that the processes of an installation share.

    Attributes:
        number: how many there have been.
        ahead: how far the database's clock is ahead of the time to go by (behind: negative); 0 when it is right.
        until: of a jump, the last time (UTC) at which the process that found it had seen the clock right.
    """

    number: int = 0
    ahead: timedelta = _NOTHING
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClockMeasurement:
    """One reading of the database's clock.

    Attributes:
        theirs: what it said (UTC).
        before, after: the monotonic clock in seconds when it was asked and when the answer was here.
        own: this machine's clock when the answer was here (UTC).
    """

    theirs: datetime
    before: float
    after: float
    own: datetime


@dataclass(frozen=True, slots=True)
class ClockProposal:
    """A judgement to store as the record after the one that was read; another process may be first."""

    fact: ClockFact
    record: ClockRecord


@dataclass(frozen=True, slots=True)
class CountedTime:
    """A point from which time is counted: `at` (UTC) when the monotonic clock was at `monotonic` seconds."""

    at: datetime
    monotonic: float

    def now(self, monotonic: float) -> datetime:
        """The time (UTC) when the monotonic clock is at `monotonic` seconds."""
        return self.at + timedelta(seconds=monotonic - self.monotonic)


@dataclass(frozen=True, slots=True)
class ClockView:
    """What one process knows of the database's clock.

    Attributes:
        number: of the record that it follows.
        count: where its count of time stands, corrected by each measurement while the clock is right.
        anchor: where it stood up to a minute ago; a jump is a jump from there.
        began: since when it has watched the clock without a break (UTC).
        ahead: how far the clock is ahead of the count; 0 when it is right.
        doubtful_since: when the doubt began, on the monotonic clock; None: there is none.
        held: how long the clock must agree for the doubt to end.
    """

    number: int
    count: CountedTime
    anchor: CountedTime
    began: datetime
    ahead: timedelta = _NOTHING
    doubtful_since: float | None = None
    held: timedelta = HELD

    @property
    def in_doubt(self) -> bool:
        """Whether nothing may end because of time: expire, be killed, be deleted."""
        return self.doubtful_since is not None

    def now(self, monotonic: float) -> datetime:
        """The time to go by (UTC)."""
        return self.count.now(monotonic)

    def database_time(self, monotonic: float) -> datetime:
        """What the database's clock should say, whether that is right or not."""
        return add_duration(self.now(monotonic), self.ahead)

    def is_steady(self, monotonic: float) -> bool:
        """Whether the database's clock has not jumped lately: what it measures itself, as leases, may end."""
        return self.doubtful_since is None or monotonic - self.doubtful_since >= HELD.total_seconds()


def judge_clock(
    view: ClockView | None, found: ClockMeasurement, record: ClockRecord
) -> tuple[ClockView, ClockProposal | None]:
    """The view after a measurement, and a judgement to share. `record` was read with the measurement."""
    if view is None:
        return _start_view(found, record), None
    if record.number != view.number:
        return _by_record(view, found, record)
    if not _agrees(view, found, view.ahead):
        return _record_jump(view, found, record)
    view = view if view.ahead else _correct_count(view, found)
    if view.doubtful_since is None:
        return view, None
    agreed = timedelta(seconds=found.after - view.doubtful_since)
    if not view.ahead:
        return (view if agreed < view.held else replace(view, doubtful_since=None)), None
    if agreed >= HELD and (abs(view.ahead) <= SMALL or (agreed >= HELD_LONG and _own_agrees(found))):
        return view, _proposal(ClockFact.ACCEPTED, record)
    return view, None


def confirm_clock(record: ClockRecord) -> ClockProposal | None:
    """A person says that the clock is right; None when it is not in doubt."""
    return _proposal(ClockFact.CONFIRMED, record) if record.ahead else None


def _start_view(found: ClockMeasurement, record: ClockRecord) -> ClockView:
    sure = not record.ahead and _own_agrees(found)
    count = CountedTime(add_duration(found.theirs, -record.ahead), found.after)
    return ClockView(
        record.number,
        count,
        count,
        began=count.at,
        ahead=record.ahead,
        doubtful_since=None if sure else found.after,
        held=FIRST,
    )


def _record_jump(view: ClockView, found: ClockMeasurement, record: ClockRecord) -> tuple[ClockView, ClockProposal]:
    """The clock has left the count, or has left its last jump. Until the judgement is stored the view keeps both."""
    doubtful = replace(view, doubtful_since=found.after, held=HELD)
    if _agrees(view, found, _NOTHING):
        return doubtful, _proposal(ClockFact.RETURNED, record)
    ahead = found.theirs - view.anchor.now(found.after)
    return doubtful, _proposal(ClockFact.JUMPED, record, ahead, until=view.count.at)


def _by_record(view: ClockView, found: ClockMeasurement, record: ClockRecord) -> tuple[ClockView, ClockProposal | None]:
    """The view after another process, or a person, has judged."""
    sees_nothing = not view.ahead and _agrees(view, found, _NOTHING)
    if record.ahead and sees_nothing and record.until is not None:
        watched = view.began <= record.until <= view.now(found.after) + TOLERANCE
        if watched:
            return view, _proposal(ClockFact.OVERRULED, record)
    if not record.ahead and sees_nothing:
        return replace(_correct_count(view, found), number=record.number), None
    agrees = _agrees(view, found, record.ahead)
    if agrees and not record.ahead:
        view = _correct_count(view, found)
    elif not agrees:
        count = CountedTime(add_duration(found.theirs, -record.ahead), found.after)
        view = replace(view, count=count, anchor=count, began=count.at)
    doubtful = bool(record.ahead) or agrees
    return (
        replace(
            view,
            number=record.number,
            ahead=record.ahead,
            doubtful_since=found.after if doubtful else None,
            held=HELD,
        ),
        None,
    )


def _agrees(view: ClockView, found: ClockMeasurement, ahead: timedelta) -> bool:
    """Whether the clock, taken to be so far ahead, is where the count is; it was read at some time from `before` to
    `after`.
    """
    late = found.theirs - view.anchor.now(found.after) - ahead
    early = view.anchor.now(found.before) - found.theirs + ahead
    return max(late, early) <= TOLERANCE + timedelta(seconds=DRIFT * (found.after - view.anchor.monotonic))


def _correct_count(view: ClockView, found: ClockMeasurement) -> ClockView:
    """The view with its count corrected by a measurement of a clock that is right."""
    slow = found.after - found.before > _SLOW.total_seconds()
    if slow and view.now(found.before) <= found.theirs <= view.now(found.after):
        return view
    count = CountedTime(found.theirs, found.after)
    old = found.after - view.anchor.monotonic >= _WINDOW.total_seconds()
    return replace(view, count=count, anchor=count if old else view.anchor)


def _own_agrees(found: ClockMeasurement) -> bool:
    return abs(found.own - found.theirs) <= TOLERANCE


def _proposal(
    fact: ClockFact, record: ClockRecord, ahead: timedelta = _NOTHING, *, until: datetime | None = None
) -> ClockProposal:
    return ClockProposal(fact, ClockRecord(record.number + 1, ahead, until))
