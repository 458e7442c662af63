"""Token buckets of rates (`domain.constraints.rate`), in the transactions that make runs.

Their rows are locked after jobs and groups, in the order of their keys; their holder waits for no other lock but those
of load gates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.rate import TokenBucket, program_bucket_key
from streamsched.domain.decisions.decision import Admit, Decision
from streamsched.domain.errors import UnavailableError
from streamsched.domain.limits import add_duration, longer
from streamsched.domain.names import ProgramRef
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("limits/rates")


class _Bucket(NamedTuple):
    scope: str
    max_runs: int
    per: timedelta
    burst: int
    remaining: float
    at: datetime


_LOCK: Final = Select(_SQL["lock"], _Bucket)
_PEEK: Final = Select(_SQL["peek"], _Bucket)
#: How long a full bucket is kept after its last use.
_FORGOTTEN: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
#: Attempts to create missing buckets. One created by the second is not deleted for a day.
_TRIES: Final = 3


async def lock_buckets(
    connection: Connection, buckets: Iterable[TokenBucket], *, now: datetime, programs: Iterable[ProgramRef] = ()
) -> Mapping[TokenBucket, BucketLevel]:
    """Locks these buckets and all others of their keys and of the programs' keys until the transaction ends; missing
    ones are created, full.

    Raises:
        UnavailableError: some are deleted again and again before they are locked.
    """
    wanted = sorted(set(buckets))
    keys = {each.key for each in wanted} | {program_bucket_key(program) for program in programs}
    if not keys:
        return {}
    rows = [(each.key, each.limit, each.per, each.burst) for each in wanted]
    for _ in range(_TRIES):
        if rows:
            await connection.execute(_SQL["ensure"], now, *(list(column) for column in zip(*rows, strict=True)))
        found = _buckets(await _LOCK.fetch(connection, sorted(keys)))
        if found.keys() >= set(wanted):  # one that existed may be deleted before it is locked
            return found
    raise UnavailableError("buckets of rates are forgotten while they are asked for")


async def read_buckets(connection: Connection, buckets: Iterable[TokenBucket]) -> Mapping[TokenBucket, BucketLevel]:
    """All buckets of the keys of these, without locks; those that do not exist are missing."""
    keys = sorted({each.key for each in buckets})
    return _buckets(await _PEEK.fetch(connection, keys)) if keys else {}


async def settle(
    connection: Connection, buckets: Mapping[TokenBucket, BucketLevel], decisions: Sequence[Decision], now: datetime
) -> None:
    """Admitted runs take their tokens; the buckets are locked."""
    if buckets:
        await take(
            connection, buckets, (key for each in decisions if isinstance(each, Admit) for key in each.bucket_keys), now
        )


async def take(
    connection: Connection, buckets: Mapping[TokenBucket, BucketLevel], keys: Iterable[str], now: datetime
) -> None:
    """Takes a token for each occurrence of a key, from every bucket of that key; the buckets are locked."""
    runs = Counter(keys)
    rows: list[tuple[object, ...]] = []
    for bucket, level in buckets.items():
        if amount := runs[bucket.key]:
            after = bucket.take_tokens(level, amount, now)
            full_at = add_duration(after.at, longer(_SECOND, (bucket.burst - after.left) / bucket.pace.per_second))
            rows.append((bucket.key, bucket.limit, bucket.per, bucket.burst, after.left, after.at, full_at))
    if rows:
        await connection.execute(_SQL["draw"], *(list(column) for column in zip(*rows, strict=True)))


async def forget(executor: Executor, now: datetime) -> None:
    """Deletes buckets that have been full for a day: a missing bucket counts as full."""
    await executor.execute(_SQL["forget"], now - _FORGOTTEN)


def _buckets(rows: Iterable[_Bucket]) -> Mapping[TokenBucket, BucketLevel]:
    return {TokenBucket(*row[:4]): BucketLevel(*row[4:]) for row in rows}
