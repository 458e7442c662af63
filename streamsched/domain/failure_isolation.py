"""Failure isolation: items that are attempted together, where one that fails must not keep the others from succeeding.

    >>> search, refused = FailureIsolation([3, 1, 0, 2]), []
    >>> for group in search:
    ...     try:
    ...         [6 // number for number in group]
    ...     except Exception as failure:
    ...         if not search.halve(failure):
    ...             refused += group
    >>> refused
    [0]

For writes of many rows in one transaction. The search makes no attempt itself, so it serves callers with and without
`await`. After a failed commit to the log its records must be read again, so there the next read is a smaller one
instead: see `streamsched.stream.poison_search` and `streamsched.catalog.relay`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from streamsched.domain.errors import SYSTEMIC

T = TypeVar("T")


class FailureIsolation(Generic[T]):
    """Groups of items to attempt, in the items' order: first all, also when there are none, then the halves of each
    group that failed. Call `halve` for a group that failed; one without that call has succeeded. Items of a failed
    group are attempted again, so an attempt must leave nothing behind when it fails, or allow repeats. With n items of
    which k fail, there are at most 1 + 2k·⌈log₂ n⌉ attempts.
    """

    def __init__(self, items: Sequence[T]) -> None:
        self._waiting = [items]
        self._group: Sequence[T] = ()

    def __iter__(self) -> Iterator[Sequence[T]]:
        while self._waiting:
            self._group = self._waiting.pop()
            yield self._group

    def halve(self, failure: Exception) -> bool:
        """Records that the current group failed. True: its halves are the next groups. False: it is a single item, or
        none, whose failure this is; the items after it are next.

        Raises:
            failure: it is `SYSTEMIC`, so it is not caused by an item; the search is over.
        """
        if isinstance(failure, SYSTEMIC):
            raise failure
        middle = len(self._group) // 2
        if middle:
            self._waiting += [self._group[middle:], self._group[:middle]]
        return middle > 0
