"""Events in order of arrival: read like a tuple, added to at the end and taken from the front at a price that does not
depend on how many there are.

Versions share one list, each showing a window of it. The newest adds to the list itself; adding to an older version,
which nobody does twice in production, copies what that version shows. So a value never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

from streamsched.domain.event import Event

#: Taken events stay in the shared list until there are this many of them, and more than of those that stay.
_IDLE: Final = 64


class Arrivals(Sequence[Event]):
    """Immutable. Events are numbered from the first that ever joined; a number stays with its event when those before
    it are taken, so that an event can be stored once under its number.
    """

    __slots__ = ("_base", "_cut", "_log", "_start", "_stop", "older")

    def __init__(self, events: Iterable[Event] = (), *, first: int = 0, older: int = 0) -> None:
        """`first`: the number of the first of `events`. `older`: how many come before it that are kept elsewhere, in a
        value that is only shown and never goes on.
        """
        self.older = older
        self._log = list(events)
        self._base = first
        self._start = 0
        self._stop = len(self._log)
        self._cut: Event | None = None

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self._base + self._start

    @property
    def after(self) -> int:
        """The number that the next event will have."""
        return self._base + self._stop

    @property
    def cut(self) -> Event | None:
        """What is left of the first event when a part of it was taken."""
        return self._cut

    def plus(self, event: Event) -> Arrivals:
        """With one more at the end."""
        log, stop = self._log, self._stop
        if not stop or len(log) != stop:  # nobody's list is nobody's
            log = log[self._start : stop]
            log.append(event)
            return _window(log, self.first, 0, len(log), self._cut)
        log.append(event)
        return _window(log, self._base, self._start, stop + 1, self._cut)

    def without(self, taken: int, cut: Event | None = None) -> Arrivals:
        """Without the first `taken`; `cut` is what stays of the one that is first then."""
        start = self._start + taken
        kept = self._cut if taken == 0 and cut is None else cut
        if start <= _IDLE or start <= self._stop - start:
            return _window(self._log, self._base, start, self._stop, kept)
        return _window(self._log[start : self._stop], self._base + start, 0, self._stop - start, kept)

    def continues(self, older: Arrivals) -> bool:
        """Whether this came from `older` by adding and taking alone, so that equal numbers are equal events, but for
        the first when it is cut. False when in doubt.
        """
        return self._log is older._log

    def numbered(self, first: int, after: int) -> Sequence[Event]:
        """The whole events of these numbers, as far as they are still here."""
        return self._log[max(self._start, first - self._base) : min(self._stop, after - self._base)]

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Event]:
        shown = self._log[self._start : self._stop]
        if self._cut is not None and shown:
            shown[0] = self._cut
        return iter(shown)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, place: int | slice) -> Event | tuple[Event, ...]:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Arrivals | tuple):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Arrivals({list(self)!r})"


def _window(log: list[Event], base: int, start: int, stop: int, cut: Event | None) -> Arrivals:
    made = Arrivals.__new__(Arrivals)
    made.older = 0
    made._log, made._base, made._start, made._stop, made._cut = log, base, start, stop, cut
    return made


NOBODY: Final = Arrivals()
