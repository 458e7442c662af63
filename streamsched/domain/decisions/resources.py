"""What runs of any program share: slots of groups and pools, tokens of rates, room on clusters and for processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from streamsched.domain.constraints.group import GroupSlot, Occupancy
from streamsched.domain.constraints.load import Load, LoadGate
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.pool import PoolQueue
from streamsched.domain.constraints.process_room import ProcessKind, ProcessRoom, RoomTurn
from streamsched.domain.constraints.rate import TokenBucket, with_tokens_taken


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run takes: `slots`, pairs of group name and weight; a token from every bucket of `bucket_keys`; a slot
    of `pool`; it counts as started at the gates of `loads`; and it takes the place `room`.
    """

    run: str
    slots: tuple[tuple[str, int], ...] = ()
    bucket_keys: tuple[str, ...] = ()
    pool: str | None = None
    loads: tuple[Load, ...] = ()
    room: RoomTurn | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """A value, read under locks; each method returns the resources after a change.

    Attributes:
        groups: occupancy by name; slots of pools are under `slots_name`. A missing group is empty.
        pool_queues: pools by name; each queue holds at least the jobs that can get a slot. A missing pool is empty.
        buckets: levels of the token buckets of rates; a missing bucket is full.
        load_gates: the gate of each load constraint after the latest reading.
        rooms: the room for processes; a missing one is unlimited.
    """

    groups: Mapping[str, Occupancy] = field(default_factory=dict[str, Occupancy])
    pool_queues: Mapping[str, PoolQueue] = field(default_factory=dict[str, PoolQueue])
    buckets: Mapping[TokenBucket, BucketLevel] = field(default_factory=dict[TokenBucket, BucketLevel])
    load_gates: Mapping[Load, LoadGate] = field(default_factory=dict[Load, LoadGate])
    rooms: Mapping[ProcessKind, ProcessRoom] = field(default_factory=dict[ProcessKind, ProcessRoom])

    def select(self, pools: Collection[str], bucket_keys: Collection[str], loads: Collection[Load]) -> Resources:
        """All groups and rooms, and of the rest only these."""
        return Resources(
            self.groups,
            {name: queue for name, queue in self.pool_queues.items() if name in pools},
            {bucket: level for bucket, level in self.buckets.items() if bucket.key in bucket_keys},
            {load: load_gate for load, load_gate in self.load_gates.items() if load in loads},
            self.rooms,
        )

    def add_runs(self, runs: Iterable[Taken], now: datetime) -> Resources:
        """After these runs took what they take."""
        pool_queues, slots = {**self.pool_queues}, dict[str, list[GroupSlot]]()
        rooms = self.rooms
        tokens, started = dict[str, int](), dict[Load, int]()
        for taken in runs:
            for name, weight in taken.slots:
                slots.setdefault(name, []).append(GroupSlot(taken.run, weight))
            for key in taken.bucket_keys:
                tokens[key] = tokens.get(key, 0) + 1
            if taken.pool is not None:
                pool_queues[taken.pool] = pool_queues.get(taken.pool, PoolQueue()).add_run(taken.run)
            if taken.room is not None and taken.room.kind in rooms:
                kind, share, turn = taken.room
                rooms = {**rooms, kind: rooms[kind].with_run(share, turn)}
            for load in taken.loads:
                started[load] = started.get(load, 0) + 1
        load_gates = self.load_gates
        if started:
            load_gates = {load: gate.with_started_runs(started.get(load, 0)) for load, gate in load_gates.items()}
        occupied = {name: self.groups.get(name, Occupancy()).taken_by_all(new) for name, new in slots.items()}
        return Resources(
            {**self.groups, **occupied},
            pool_queues,
            with_tokens_taken(self.buckets, tokens, now) if tokens else self.buckets,
            load_gates,
            rooms,
        )

    def remove_runs(self, runs: frozenset[str]) -> Resources:
        """As if these runs had ended: their slots are free."""
        return Resources(
            {name: occupancy.remove_runs(runs) for name, occupancy in self.groups.items()},
            {name: queue.remove_runs(runs) for name, queue in self.pool_queues.items()},
            self.buckets,
            self.load_gates,
            self.rooms,
        )
