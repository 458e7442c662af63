"""What the product says beside what the naive model says, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.support.judgement import Judgement

#: Lines of one difference that are shown, of this many characters.
_LINES, _CHARACTERS = 8, 300


class YearOutcome(NamedTuple):
    """What a year came to. `words`: on the first differences."""

    jobs: int
    differences: int
    words: Sequence[str]


class Differences:
    """Counts lines that only one side has; `show` is given the first of each comparison at once."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self.judgement = Judgement()

    def compare(self, what: str, wanted: Sequence[str], found: Sequence[str]) -> None:
        """The same lines, as often, in the same order."""
        self.judgement.compare(what, wanted, found)
        if list(wanted) != list(found):
            lines = [f"  - {each}" for each in wanted if each not in found]
            lines += [f"  + {each}" for each in found if each not in wanted]
            self._show("\n".join([what, *(line[:_CHARACTERS] for line in lines[:_LINES])]))

    def outcome(self, jobs: int) -> YearOutcome:
        """`jobs`: how many the model wants."""
        found = self.judgement
        return YearOutcome(jobs, found.lost + found.doubled + found.wrong, found.words)
