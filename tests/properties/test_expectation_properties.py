"""Expectations beside naive models: their due times by a walk through all minutes, what is missed by a walk through all
that happened, and the usual time by sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import unquote

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamsched.domain.expectations.expectation import Expectation, Frequency
from streamsched.domain.expectations.key_template import expected_key, key_of
from streamsched.domain.expectations.usual import LEAST, NEWEST, usual_time
from streamsched.domain.names import DatasetRef, ExpectationRef
from streamsched.domain.ticks.due_times import due_time_after, first_due_time
from streamsched.domain.ticks.watched_expectation import (
    MissedDue,
    WatchedExpectation,
    begin_watch,
    came_late,
    settle_due_time,
)
from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.zone import zone_of

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca")
#: Around changes of the clock of these zones.
DAYS = tuple(
    date.fromisoformat(day)
    for day in ("2026-03-07", "2026-03-27", "2026-10-03", "2026-10-23", "2026-10-31", "2026-06-01")
)


@st.composite
def expectations(draw: st.DrawFn, *, usual: bool = False) -> Expectation:
    every = draw(st.sampled_from(Frequency))
    by = time(0 if every is Frequency.HOUR else draw(st.integers(0, 23)), draw(st.integers(0, 59)))
    weekdays = frozenset[int]()
    if every is Frequency.DAY:
        weekdays = draw(st.frozensets(st.integers(0, 6), max_size=4))
    elif every is Frequency.WEEK:
        weekdays = frozenset({draw(st.integers(0, 6))})
    closed = draw(st.none() | st.frozensets(st.integers(0, 6), min_size=1, max_size=2))
    calendar = None if closed is None or (weekdays and weekdays <= closed) else Calendar.of(weekdays=closed)
    return Expectation(
        ExpectationRef("default", "shop", "x"),
        DatasetRef("default", "x"),
        None if usual else by,
        every,
        draw(st.sampled_from(ZONES)),
        weekdays,
        draw(st.integers(1, 28)) if every is Frequency.MONTH else 1,
        calendar,
    )


def naive_due_times(each: Expectation, begin: datetime, end: datetime) -> list[datetime]:
    """Each minute in (begin, end] at which the clock shows the time, or has passed it by a jump."""
    zone, found, reached = zone_of(each.zone), [], dict[date, datetime]()
    at = (begin - 3 * DAY).replace(second=0, microsecond=0)
    by = each.by
    assert by is not None
    while at <= end:
        wall = at.astimezone(zone)
        if each.every is Frequency.HOUR:
            if wall.minute == by.minute and _open(each, wall.date()) and at > begin:
                found.append(at)
        elif wall.time().replace(tzinfo=None) >= by and wall.date() not in reached:
            reached[wall.date()] = at
        at += MINUTE
    for day, instant in reached.items():
        due = {
            Frequency.DAY: not each.weekdays or day.weekday() in each.weekdays,
            Frequency.WEEK: day.weekday() in each.weekdays,
            Frequency.MONTH: day.day == each.day,
        }
        if instant > begin and due[each.every] and _open(each, day):
            found.append(instant)
    return sorted(found)


def _open(each: Expectation, day: date) -> bool:
    return each.calendar is None or each.calendar.is_open(day)


@settings(max_examples=25, deadline=None)
@given(expectations(), st.sampled_from(DAYS), st.integers(0, 24 * 60))
def test_due_times_are_those_of_the_clock(each: Expectation, day: date, minutes: int) -> None:
    begin = datetime.combine(day, time(0), UTC) + minutes * MINUTE
    end = begin + 4 * DAY
    found, after = [], begin
    while (due := due_time_after(each, after)) is not None and due.at <= end:
        found.append(due.at)
        after = due.at
    assert found == naive_due_times(each, begin, end)


@settings(max_examples=25, deadline=None)
@given(expectations(), st.sampled_from(DAYS), st.integers(0, 24 * 60))
def test_an_expectation_begins_with_the_next_period(each: Expectation, day: date, minutes: int) -> None:
    assume(each.every in (Frequency.HOUR, Frequency.DAY))
    now = datetime.combine(day, time(0), UTC) + minutes * MINUTE
    zone = zone_of(each.zone)

    def period(at: datetime) -> tuple[object, ...]:
        wall = at.astimezone(zone)
        return (wall.date(), wall.hour if each.every is Frequency.HOUR else 0)

    later = [at for at in naive_due_times(each, now, now + 9 * DAY) if period(at) > period(now)]
    due = first_due_time(each, now)
    assert (due.at if due is not None and due.at <= now + 9 * DAY else None) == (later[0] if later else None)


@settings(max_examples=100, deadline=None)
@given(
    expectations(usual=True),
    st.sampled_from(DAYS),
    st.timedeltas(timedelta(minutes=-30), timedelta(hours=30)),
    st.booleans(),
)
def test_usual_times_have_one_due_time_in_each_period(
    each: Expectation, day: date, usual: timedelta, learning: bool
) -> None:
    begin = datetime.combine(day, time(0), UTC)
    by = usual // MINUTE * MINUTE
    after, starts = begin, list[datetime]()
    for _ in range(5):
        due = due_time_after(each, after, None if learning else by)
        if due is None or due.at > begin + 100 * DAY:
            break
        assert due.at > after
        assert due.learning is learning
        assert due.opens_at is not None
        starts.append(due.start)
        after = due.at
    assert starts == sorted(set(starts)), "each period once, in order"


@dataclass
class Naive:
    """What is missed, by a walk through commits and due times in order."""

    due: Sequence[datetime]
    commits: Sequence[datetime]
    since: datetime
    missed: dict[datetime, datetime | None] = field(default_factory=dict)

    def walk(self, until: datetime) -> dict[datetime, datetime | None]:
        """When each that was missed came, up to an instant."""
        counts, last = False, None
        for at, kind in sorted([(at, 0) for at in self.commits] + [(at, 1) for at in self.due]):
            if at > until:
                break
            if kind == 1:
                if not counts:
                    self.missed[at] = None
                counts, last = False, at
                continue
            if at <= self.since:
                continue
            if last is not None and last in self.missed and self.missed[last] is None:
                self.missed[last] = at
                following = self.due[self.due.index(last) + 1]
                counts = counts or at - last > following - at
            else:
                counts = True
        return self.missed


class Judge:
    """The product's decisions, as the store takes them: at any instants, with what was committed by then."""

    def __init__(self, watched: WatchedExpectation) -> None:
        self.watched = watched
        self.missed: dict[datetime, datetime | None] = {}
        self.announced: list[datetime] = []
        self._open: list[MissedDue] = []

    def look(self, now: datetime, commits: Sequence[datetime]) -> None:
        known = sorted(at for at in commits if at <= now)
        while True:
            self._come(known)
            due, wanted = self.watched.due, self.watched.expected_next
            if due is None or wanted is None or due.at > now:
                return
            outcome = settle_due_time(self.watched, next((at for at in known if at > wanted.after), None), now)
            if outcome.miss is None:
                self._open.clear()
            else:
                self.missed[due.at] = None
                self._open = [MissedDue(due, wanted._replace(after=due.at))]
                self.announced += [due.at] if outcome.announced else []
            self.watched = outcome.next

    def _come(self, known: Sequence[datetime]) -> None:
        for each in list(self._open):
            first = next((at for at in known if at > each.due.at), None)
            self.watched, came = came_late(self.watched, each, first)
            if came is not None:
                self.missed[each.due.at] = came.came_at
                self._open.remove(each)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 12 * 24 * 60), max_size=30),
    st.lists(st.integers(0, 12 * 24 * 60), max_size=8),
    st.sampled_from(("UTC", "Europe/Berlin")),
    st.booleans(),
)
def test_what_is_missed_does_not_depend_on_when_anybody_looks(
    commits: list[int], looks: list[int], zone: str, repeated: bool
) -> None:
    begin = datetime(2026, 3, 23, 12, tzinfo=UTC)
    each = Expectation(ExpectationRef("d", "a", "x"), DatasetRef("d", "x"), time(8), zone=zone)
    came = sorted({begin + minute * MINUTE for minute in commits})
    end = begin + 12 * DAY
    judge = Judge(begin_watch(each, begin))
    for look in sorted(looks):
        judge.look(begin + look * MINUTE, came)
        if repeated:
            judge.look(begin + look * MINUTE, came)
    judge.look(end, came)

    first = judge.watched.due
    assert first is not None
    due = naive_due_times(each, begin, first.at)
    begun = next(at for at in due if at.astimezone(zone_of(zone)).date() > begin.astimezone(zone_of(zone)).date())
    naive = Naive([at for at in due if at >= begun], came, begin).walk(end)
    assert judge.missed == naive
    assert set(judge.announced) <= set(naive)
    assert all(later not in judge.announced[:place] for place, later in enumerate(judge.announced)), "each once"


@given(st.lists(st.timedeltas(timedelta(hours=-2), timedelta(hours=30)), max_size=40))
def test_the_usual_time_keeps_the_middle_of_the_newest(times: list[timedelta]) -> None:
    found = usual_time(times)
    newest = sorted(times[-NEWEST:])
    if len(newest) < LEAST:
        assert found is None
        return
    assert found is not None
    assert found % MINUTE == timedelta(0)
    half = len(newest) // 2
    middle = newest[half] if len(newest) % 2 else (newest[half - 1] + newest[half]) // 2
    distances = sorted(abs(each - middle) for each in newest)
    distance = distances[half] if len(newest) % 2 else (distances[half - 1] + distances[half]) // 2
    spread = max(3 * distance, 15 * MINUTE)
    assert middle + spread <= found < middle + spread + MINUTE
    assert sum(each <= found for each in newest) >= len(newest) / 2
    assert usual_time(list(reversed(times[-NEWEST:]))) == found, "their order does not matter"


def values_of(key: str) -> dict[str, str]:
    """The columns of a key that `key_of` made."""
    parts = (part.partition("=") for part in key.split("/") if part)
    return {column: unquote(value) for column, _, value in parts}


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda text: "/" not in text and "=" not in text),
        st.text().filter(str.isprintable),
        max_size=4,
    )
)
def test_keys_are_read_back(values: dict[str, str]) -> None:
    assert values_of(key_of(values)) == values


@given(st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001 - on the zone's clock
def test_templates_name_the_start_of_the_period(start: datetime) -> None:
    start = start.replace(minute=0, second=0, microsecond=0)
    template = "y={year}/m={month}/w={week}/d={day}/h={hour}/p={start:%Y%m%d-%H}/n={start:%-d.%-m.}/j={start:%j}"
    assert values_of(expected_key(template, start)) == {
        "y": f"{start.year}",
        "m": f"{start:%Y-%m}",
        "w": f"{start:%G-W%V}",
        "d": f"{start:%Y-%m-%d}",
        "h": f"{start:%Y-%m-%dT%H}",
        "p": f"{start:%Y%m%d-%H}",
        "n": f"{start.day}.{start.month}.",
        "j": f"{start:%j}",
    }
