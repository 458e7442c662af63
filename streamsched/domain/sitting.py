"""Several dockets judged one after the other, in one go: what they share, and how it stands after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from streamsched.domain.docket import Admit, Docket, Ruling, Wait
from streamsched.domain.group import Occupancy, Slot
from streamsched.domain.load import Gate, Load
from streamsched.domain.pace import Bucket
from streamsched.domain.pool import Line
from streamsched.domain.rate import Meter, program_scope


@dataclass(frozen=True, slots=True)
class Judged:
    """A docket with one ruling for each of its cases, in their order."""

    program: str
    docket: Docket
    rulings: Sequence[Ruling]


@dataclass(frozen=True, slots=True)
class Shared:
    """What runs of any program take of: groups, lines of pools, buckets of rates and gates of clusters, under their
    locks.
    """

    groups: Mapping[str, Occupancy] = field(default_factory=dict)
    lines: Mapping[str, Line] = field(default_factory=dict)
    meters: Mapping[Meter, Bucket] = field(default_factory=dict)
    gates: Mapping[Load, Gate] = field(default_factory=dict)

    def laid_before(self, docket: Docket, scopes: Collection[str]) -> Docket:
        """The docket with what its cases ask for as it stands; `scopes` are those of their rates."""
        own = {*scopes, *(() if docket.program is None else (program_scope(docket.program.ref),))}
        pools = {case.schedule.pool.name for case in docket.cases if case.schedule and case.schedule.pool}
        loads = {load for case in docket.cases if case.schedule for load in case.schedule.loads} if self.gates else ()
        return replace(
            docket,
            groups=self.groups,
            lines={name: line for name, line in self.lines.items() if name in pools},
            meters={meter: bucket for meter, bucket in self.meters.items() if meter.scope in own},
            gates={load: gate for load, gate in self.gates.items() if load in loads},
        )

    def after(self, docket: Docket, rulings: Sequence[Ruling], now: datetime) -> Shared:
        """How it stands when these rulings on the docket hold."""
        admits = [ruling for ruling in rulings if isinstance(ruling, Admit)]
        slots: dict[str, list[Slot]] = {}
        for admit in admits:
            for name, weight in admit.slots:
                slots.setdefault(name, []).append(Slot(admit.run, weight))
        groups = {name: self.groups.get(name, Occupancy()).taken_by_all(held) for name, held in slots.items()}
        taken = Counter(scope for admit in admits for scope in admit.scopes)
        drawn = {
            meter: meter.taken(bucket, taken[meter.scope], now)
            for meter, bucket in docket.meters.items()
            if taken[meter.scope]
        }
        return Shared(
            {**self.groups, **groups},
            {**self.lines, **_moved_up(docket, rulings)},
            {**self.meters, **drawn},
            {**self.gates, **_passed(docket, rulings)} if self.gates else self.gates,
        )


def _passed(docket: Docket, rulings: Sequence[Ruling]) -> Mapping[Load, Gate]:
    gates = dict(docket.gates)
    for case, ruling in zip(docket.cases, rulings, strict=True):
        if isinstance(ruling, Admit) and case.schedule is not None:
            for load in case.schedule.loads:
                gates[load] = gates.get(load, Gate()).passed()
    return gates


def _moved_up(docket: Docket, rulings: Sequence[Ruling]) -> Mapping[str, Line]:
    lines = dict(docket.lines)
    for case, ruling in zip(docket.cases, rulings, strict=True):
        pool = case.schedule.pool if case.schedule is not None else None
        if pool is None or pool.name not in lines:
            continue
        line = lines[pool.name].left(case.job)
        if isinstance(ruling, Wait) and ruling.line is not None:
            line = line.joined([ruling.line[1]])
        if isinstance(ruling, Admit):
            line = line.taken_by(ruling.run)
        lines[pool.name] = line
    return lines
