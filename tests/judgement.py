"""What the judges of fault suites and simulation say: what is wrong, counted, with a few words on each of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Judgement:
    """Lost, doubled, wrong: what should be and is not, what is more often than it should, what is something else."""

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    missing: list[str] = field(default_factory=list)
    excess: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)

    @property
    def words(self) -> list[str]:
        """On the first of what is missing, and of what is doubled or wrong, where waiting does not help."""
        return [*self.missing, *self.excess]

    def miss(self, what: str, times: int = 1) -> None:
        self.lost += times
        _say(self.missing, f"lost: {what}")

    def double(self, what: str, times: int = 1) -> None:
        self.doubled += times
        _say(self.excess, f"doubled: {what}")

    def spoil(self, what: str) -> None:
        self.wrong += 1
        _say(self.excess, f"wrong: {what}")

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
        self.lost += other.lost
        self.doubled += other.doubled
        self.wrong += other.wrong


def _say(words: list[str], what: str) -> None:
    if len(words) < 10:
        words.append(what)
