"""What judges of trials, simulation and year say: what is wrong, counted by kind, with words on each of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

#: Words that are kept of what is missing, and of everything else.
_WORDS: Final = 10
_LOST: Final = "lost"


@dataclass(slots=True)
class Judgement:
    """Of most judges: lost, doubled, wrong, which is what should be and is not, what is more often than it should, and
    what is something else. What is lost may still come; nothing else gets better by waiting.

    Attributes:
        kinds: in the order in which they are printed.
        allowed: kinds that are counted and are no deviation.
        missing: words on what is lost.
        excess: words on everything else.
    """

    kinds: tuple[str, ...] = (_LOST, "doubled", "wrong")
    allowed: frozenset[str] = frozenset()
    counts: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    excess: list[str] = field(default_factory=list)

    def __getitem__(self, kind: str) -> int:
        return self.counts[kind]

    def __str__(self) -> str:
        return " ".join(f"{kind} {self.counts[kind]}" for kind in self.kinds)

    @property
    def lost(self) -> int:
        return self.counts[_LOST]

    @property
    def doubled(self) -> int:
        return self.counts["doubled"]

    @property
    def wrong(self) -> int:
        return self.counts["wrong"]

    @property
    def clean(self) -> bool:
        return not any(times for kind, times in self.counts.items() if kind not in self.allowed)

    @property
    def words(self) -> list[str]:
        return [*self.missing, *self.excess]

    def note(self, kind: str, what: object, times: int = 1) -> None:
        """Counts one of the kinds; what is allowed has no words."""
        self.counts[kind] += times
        words = self.missing if kind == _LOST else self.excess
        if kind not in self.allowed and len(words) < _WORDS:
            words.append(f"{kind}: {what}")

    def miss(self, what: str, times: int = 1) -> None:
        self.note(_LOST, what, times)

    def double(self, what: str, times: int = 1) -> None:
        self.note("doubled", what, times)

    def spoil(self, what: str) -> None:
        self.note("wrong", what)

    def compare(self, what: str, wanted: Sequence[str], came: Sequence[str]) -> None:
        """The same, as often, in the same order."""
        if list(wanted) == list(came):
            return
        missing, more = Counter(wanted) - Counter(came), Counter(came) - Counter(wanted)
        if missing:
            self.miss(f"{what}: {sorted(missing)[:5]}", missing.total())
        if more:
            self.double(f"{what}: {sorted(more)[:5]}", more.total())
        if not missing and not more:
            self.spoil(f"{what}: came in another order")

    def add(self, other: Judgement) -> None:
        """Its counts; the report of a trial has shown its words."""
        self.counts.update(other.counts)
