"""Immutable lists of events in order of arrival, with constant-time append and removal from the front.

Versions share one log of events, each with a window of it. Appending to the newest version appends to that log;
appending to an older version, which is rare, copies its window. So a value never changes.

Older events may leave memory: `pack` replaces them by a page that reads them from where they are stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import Final, NamedTuple, overload

from streamsched.domain.events.event import Event

#: Removed events stay in the shared log until they are more than this, and more than the remaining ones.
_IDLE: Final = 64


class EventPage(NamedTuple):
    """The events from number `start` to before `stop`, which `read` reads; `encoded`: the codec's bytes of them, or
    None, as `Event.encoded`.
    """

    start: int
    stop: int
    read: Callable[[], Sequence[Event]]
    encoded: Callable[[], bytes | None] = lambda: None


class _Log:
    """What the versions of a list share: pages of older events without gaps, then events; `first`: the number of the
    first of these. `pages` and `events` are replaced, and only appended to in place.
    """

    __slots__ = ("events", "first", "pages")

    def __init__(self, pages: list[EventPage], first: int, events: list[Event]) -> None:
        self.pages, self.first, self.events = pages, first, events

    @property
    def begin(self) -> int:
        """The number of the first event."""
        return self.pages[0].start if self.pages else self.first

    def events_between(self, start: int, stop: int) -> Iterator[Event]:
        """The events of these numbers, which the log has. Does not copy: often only few are consumed."""
        first, events = self.first, self.events
        if start >= first:
            return map(events.__getitem__, range(start - first, stop - first))
        paged = chain.from_iterable(_part(page, start, stop) for page in self._pages_from(start, stop))
        return chain(paged, map(events.__getitem__, range(max(0, stop - first))))

    def pieces(self, start: int, stop: int) -> Iterator[EventPage | Event]:
        """As `events_between`, with each page that has only such events as one."""
        for page in self._pages_from(start, stop):
            if start <= page.start and page.stop <= stop:
                yield page
            else:
                yield from _part(page, start, stop)
        yield from self.events_between(max(start, self.first), max(stop, self.first))

    def copy(self, start: int, stop: int) -> _Log:
        """A log with the events of these numbers."""
        pages = [page for page in self._pages_from(start, stop) if page.stop <= stop]
        first = pages[-1].stop if pages else start
        return _Log(pages, first, list(self.events_between(first, stop)))

    def pack(self, page: EventPage) -> None:
        """Has the page in place of what had its events; what it has not stays, for other versions."""
        if page.stop > self.first:
            kept, self.events = self.events[: page.stop - self.first], self.events[page.stop - self.first :]
            self.pages.append(EventPage(self.first, page.stop, kept.copy))
            self.first = page.stop
        low, high = self._place(page.start), self._place(page.stop - 1)
        first, last = self.pages[low], self.pages[high]
        before = EventPage(first.start, page.start, partial(_part, first, first.start, page.start))
        after = EventPage(page.stop, last.stop, partial(_part, last, page.stop, last.stop))
        self.pages[low : high + 1] = [each for each in (before, page, after) if each.start < each.stop]

    def _place(self, number: int) -> int:
        """The index of the first page that ends after `number`."""
        return bisect_right(self.pages, number, key=attrgetter("stop"))

    def _pages_from(self, start: int, stop: int) -> Iterator[EventPage]:
        """The pages with events of these numbers."""
        for place in range(self._place(start), len(self.pages)):
            page = self.pages[place]
            if page.start >= stop:
                return
            yield page


class EventList(Sequence[Event]):
    """Events are numbered from the first one ever appended. Numbers do not change when earlier events are removed, so
    an event can be stored once under its number.

    Attributes:
        first_number: the number of the first event.
        next_number: the number of the next event appended.
        rest_of_first: the rest of the first event when a part of it was taken; None when it is whole.
        older: how many earlier events are not included, in a list that is only displayed.
    """

    __slots__ = ("_log", "first_number", "next_number", "older", "rest_of_first")

    def __init__(self, events: Iterable[Event] = (), *, first: int = 0, older: int = 0) -> None:
        """`first`: the number of the first of `events`."""
        listed = list(events)
        self.older = older
        self._log = _Log([], first, listed)
        self.first_number = first
        self.next_number = first + len(listed)
        self.rest_of_first: Event | None = None

    @classmethod
    def from_pages(cls, pages: Iterable[EventPage], newest: EventList) -> EventList:
        """The events of `pages`, without gaps, and then those of a list that is derived from no other."""
        listed, log = list(pages), newest._log
        first = listed[0].start if listed else newest.first_number
        return cls._window(_Log(listed, log.first, log.events), first, newest.next_number, newest.rest_of_first)

    def append(self, event: Event) -> EventList:
        """With one more event at the end."""
        log, stop = self._log, self.next_number
        events = log.events
        if log.first + len(events) == stop and (events or log.pages):  # the newest version, and not empty
            events.append(event)
        elif self.first_number == stop:
            log = _Log([], stop, [event])
        else:
            log = log.copy(self.first_number, stop)
            log.events.append(event)
        return self._window(log, self.first_number, stop + 1, self.rest_of_first)

    def drop_first(self, taken: int, cut: Event | None = None) -> EventList:
        """Without the first `taken`; `cut` is the rest of the event that is first then."""
        log, start, stop = self._log, self.first_number + taken, self.next_number
        kept = self.rest_of_first if taken == 0 and cut is None else cut
        idle = start - log.begin
        if idle > _IDLE and idle > stop - start:
            log = log.copy(start, stop)
        return self._window(log, start, stop, kept)

    def pack(self, page: EventPage) -> None:
        """Lets the events of a page leave memory: they are read by the page from now on. No value changes: not this
        one, nor one derived from it. A page comes again when its events are to be read elsewhere.
        """
        self._log.pack(page)

    def continues(self, older: EventList) -> bool:
        """Whether this was derived from `older` by appending and removing only, so that equal numbers are equal events
        (except a cut first one). May be False for a derived list.
        """
        return self._log is older._log

    def pieces(self) -> Iterator[EventPage | Event]:
        """All events in order: a page of them where a whole page is not in memory."""
        start, stop, cut = self.first_number, self.next_number, self.rest_of_first
        if cut is not None and start < stop:
            yield cut
            start += 1
        yield from self._log.pieces(start, stop)

    def events_between(self, first: int, after: int) -> Sequence[Event]:
        """The uncut events of these numbers that are still in the list."""
        start, stop = max(self.first_number, first), min(self.next_number, after)
        return list(self._log.events_between(start, stop)) if start < stop else []

    @classmethod
    def _window(cls, log: _Log, start: int, stop: int, cut: Event | None) -> EventList:
        window = cls.__new__(cls)
        window.older = 0
        window._log, window.first_number, window.next_number, window.rest_of_first = log, start, stop, cut
        return window

    def __len__(self) -> int:
        return self.next_number - self.first_number

    def __iter__(self) -> Iterator[Event]:
        start, stop, cut = self.first_number, self.next_number, self.rest_of_first
        if cut is None or start == stop:
            return self._log.events_between(start, stop)
        return chain((cut,), self._log.events_between(start + 1, stop))

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        if isinstance(index, slice) and index.start is None and index.step is None and (index.stop or 0) > 0:
            return tuple(islice(self, index.stop))
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EventList):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"EventList({list(self)!r})"


def _part(page: EventPage, start: int, stop: int) -> Sequence[Event]:
    """Those of a page's events that have these numbers."""
    events = page.read()
    if page.start < start or page.stop > stop:
        return events[max(0, start - page.start) : stop - page.start]
    return events


EMPTY_LIST: Final = EventList()
