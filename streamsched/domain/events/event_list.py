"""Immutable lists of events in order of arrival, with constant-time append and removal from the front.

Versions share one Python list, each with a window of it. Appending to the newest version appends to that list;
appending to an older version, which is rare, copies its window. So a value never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, overload

from streamsched.domain.events.event import Event

#: Removed events stay in the shared list until they are more than this, and more than the remaining ones.
_IDLE: Final = 64


class EventList(Sequence[Event]):
    """Events are numbered from the first one ever appended. Numbers do not change when earlier events are removed, so
    an event can be stored once under its number.
    """

    __slots__ = ("_base", "_cut", "_log", "_start", "_stop", "older")

    def __init__(self, events: Iterable[Event] = (), *, first: int = 0, older: int = 0) -> None:
        """`first`: the number of the first of `events`. `older`: how many earlier events are not included, in a list
        that is only displayed.
        """
        self.older = older
        self._log = list(events)
        self._base = first
        self._start = 0
        self._stop = len(self._log)
        self._cut: Event | None = None

    @property
    def first_number(self) -> int:
        """The number of the first event."""
        return self._base + self._start

    @property
    def next_number(self) -> int:
        """The number of the next event appended."""
        return self._base + self._stop

    @property
    def rest_of_first(self) -> Event | None:
        """The rest of the first event when a part of it was taken; None when it is whole."""
        return self._cut

    def append(self, event: Event) -> EventList:
        """With one more event at the end."""
        log, stop = self._log, self._stop
        if not stop or len(log) != stop:  # empty, or not the newest version
            log = log[self._start : stop]
            log.append(event)
            return self._window(log, self.first_number, 0, len(log), self._cut)
        log.append(event)
        return self._window(log, self._base, self._start, stop + 1, self._cut)

    def drop_first(self, taken: int, cut: Event | None = None) -> EventList:
        """Without the first `taken`; `cut` is the rest of the event that is first then."""
        start = self._start + taken
        kept = self._cut if taken == 0 and cut is None else cut
        if start <= _IDLE or start <= self._stop - start:
            return self._window(self._log, self._base, start, self._stop, kept)
        return self._window(self._log[start : self._stop], self._base + start, 0, self._stop - start, kept)

    def continues(self, older: EventList) -> bool:
        """Whether this was derived from `older` by appending and removing only, so that equal numbers are equal events
        (except a cut first one). May be False for a derived list.
        """
        return self._log is older._log

    def events_between(self, first: int, after: int) -> Sequence[Event]:
        """The uncut events of these numbers that are still in the list."""
        return self._log[max(self._start, first - self._base) : min(self._stop, after - self._base)]

    @classmethod
    def _window(cls, log: list[Event], base: int, start: int, stop: int, cut: Event | None) -> EventList:
        window = cls.__new__(cls)
        window.older = 0
        window._log, window._base, window._start, window._stop, window._cut = log, base, start, stop, cut
        return window

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Event]:
        events = map(self._log.__getitem__, range(self._start, self._stop))  # no copy: often only few are consumed
        if self._cut is None or self._start == self._stop:
            return events
        next(events)
        return chain((self._cut,), events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EventList):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"EventList({list(self)!r})"


EMPTY_LIST: Final = EventList()
