"""The jobs that a schedule's home must start: `testing.rerun`, and what else a change may keep.

It reads a home's log and shares no line of accumulation with the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from streamsched.domain.signals.signal import Put
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import AllOf, CustomEvent, Partitions, Trigger
from streamsched.domain.triggers.trigger import Leaf as LeafTrigger
from tests.support.rerun import Expected, Rerun, Stamped, counts
from tests.support.trigger_model import Tree


class Expectation(Rerun):
    """A log, reported again. A change that keeps goes on with what each leaf has, also where the leaf wants more or
    less of the same; only of triggers that are leaves, or all of some leaves.
    """

    def _begin(self, put: Put, at: datetime) -> None:
        before, tree = self.put, self.only
        other = put.keep and before is not None and before.trigger != put.trigger and counts(before) and counts(put)
        super()._begin(put, at)
        if not other or tree is None or self.only is None or self.only is tree:
            return
        assert before is not None
        # Nothing is there yet that could have fired: a new tree is empty.
        _carry(tree, self.only, put)
        self._fire(self.only, at)


def _carry(old: Tree, new: Tree, put: Put) -> None:
    for leaf in new.leaves:
        for heir in old.leaves:
            if _about(leaf.tally.leaf) == _about(heir.tally.leaf):
                leaf.tally.has, leaf.tally.level = heir.tally.has, heir.tally.level
        while put.consumption is Consumption.LATEST and leaf.tally.spares_its_oldest:
            leaf.take(1)


def _about(leaf: LeafTrigger) -> object:
    match leaf:
        case Partitions(dataset=dataset, match=match):
            return "p", dataset, match
        case CustomEvent(name=name, match=match):
            return "e", name, match
        case _:
            return leaf


def can_keep(trigger: Trigger) -> bool:
    """Whether a change of how much is wanted can be followed here: no two leaves are about the same."""
    parts = trigger.triggers if isinstance(trigger, AllOf) else (trigger,)
    simple = all(isinstance(each, Partitions | CustomEvent) for each in parts)
    return simple and len({_about(each) for each in parts}) == len(parts)  # type: ignore[arg-type]


def expected(log: Sequence[Stamped], end: datetime) -> Sequence[Expected]:
    """The jobs of the whole log, and of the time up to `end`."""
    found = Expectation()
    for at, signal in log:
        found.tell(at, signal)
    found.elapse(end)
    return found.jobs
