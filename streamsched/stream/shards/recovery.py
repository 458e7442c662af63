"""Restores the tables of a shard from their changelogs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from streamsched.domain.errors import ConfigurationError, DecodeError, UnavailableError
from streamsched.log.topics import ATTEMPT_KEY, BACKLOGS_KEY, BARRIERS_KEY, POSITION_KEY, RETIRED_KEY, SIGNALS
from streamsched.ports.broker import Broker, Reader, TopicPartition
from streamsched.stream import backlogs, crash_guard
from streamsched.stream.app import ShardApp
from streamsched.stream.backlogs import Backlogs
from streamsched.stream.crash_guard import ShardAttempt
from streamsched.stream.turn import Positions, decode_positions

#: A recovery yields after so many records: otherwise the worker would miss its heartbeats and lose its shards.
_RESTORED: Final = 2_000
_READ: Final = 100_000


class Recovered(NamedTuple):
    """What a shard's former owner has left beside the tables.

    Attributes:
        positions: those committed with the state.
        backlogs: of the partitions of which more is taken.
        attempt: the process that did not stop cleanly, if any.
        signals_end: where the shard's partition of `signals` ends.
    """

    positions: Positions
    backlogs: Mapping[TopicPartition, Backlogs]
    attempt: ShardAttempt | None
    signals_end: int


async def recover(broker: Broker, app: ShardApp, *, wait_s: float, on_progress: Callable[[], object]) -> Recovered:
    """Reads every changelog of a shard to its end into its table. `wait_s`: how long one read may wait; `on_progress`:
    called after each.

    Raises:
        ConfigurationError: the shard was retired: the installation has another number of shards now.
        UnavailableError: the broker is unavailable, or a changelog ended before its reported end.
    """
    number = app.spec.number
    at = {TopicPartition(changelog, number): 0 for changelog in app.tables}
    signals = TopicPartition(SIGNALS, number)
    ends = await broker.ends([*at, signals])
    reader = await broker.reader(at)
    reserved: dict[bytes, bytes | None] = {}
    try:
        while any(at[partition] < ends[partition] for partition in at):
            await _restore(reader, app, at, reserved, wait_s=wait_s)
            on_progress()
    finally:
        await reader.close()
    if reserved.get(RETIRED_KEY) is not None:
        raise ConfigurationError(
            f"shard {number} was retired by `streamsched reshard`: restart with the new number of shards; if "
            "the command did not finish, run it again"
        )
    await app.homes.prepare(reserved.get(BARRIERS_KEY))
    position = reserved.get(POSITION_KEY)
    positions = {} if position is None else decode_positions(position)
    waiting = backlogs.decode(reserved.get(BACKLOGS_KEY))
    return Recovered(positions, waiting, _attempt(reserved.get(ATTEMPT_KEY)), ends[signals])


async def _restore(
    reader: Reader, app: ShardApp, at: dict[TopicPartition, int], reserved: dict[bytes, bytes | None], *, wait_s: float
) -> None:
    chunks = await reader.read(max_records=_READ, timeout=wait_s)
    if not chunks:
        raise UnavailableError(f"the changelogs of shard {app.spec.number} end before their reported ends")
    for chunk in chunks:
        at[chunk.at] = chunk.next_position
        restore = app.tables[chunk.topic].restore
        for nth, record in enumerate(chunk.records, 1):
            if nth % _RESTORED == 0:
                await asyncio.sleep(0)
            if record.key in _RESERVED:
                reserved[record.key] = record.value
            elif record.key is not None:
                restore(record.key, record.value)


def _attempt(value: bytes | None) -> ShardAttempt | None:
    """The attempt of the previous process. One that this release cannot decode counts as one without details."""
    try:
        return None if value is None else crash_guard.decode(value)
    except DecodeError:
        return ShardAttempt("")


#: The keys of records that are not rows.
_RESERVED: Final = frozenset((POSITION_KEY, BACKLOGS_KEY, ATTEMPT_KEY, BARRIERS_KEY, RETIRED_KEY))
