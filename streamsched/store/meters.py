"""Buckets of rates (`domain.rate`), within the transactions of those who make runs.

Their rows are locked after the jobs, in the order of their keys; whoever has them waits for nobody any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from streamsched.domain.docket import Admit, Ruling
from streamsched.domain.errors import UnavailableError
from streamsched.domain.names import ProgramRef
from streamsched.domain.pace import Bucket
from streamsched.domain.rate import Meter, program_scope
from streamsched.store.sql import queries

_SQL: Final = queries("meters")
#: How long a bucket that nobody took of since it was full is remembered.
_FORGOTTEN: Final = timedelta(days=1)
#: How often missing buckets are made. What the second time finds is new, and nobody forgets it for a day.
_TRIES: Final = 3


async def locked(
    connection: Any, meters: Iterable[Meter], *, now: datetime, programs: Iterable[ProgramRef] = ()
) -> Mapping[Meter, Bucket]:
    """These buckets, and all others of their scopes and of the programs', held until the transaction ends; unknown ones
    are made, full.

    Raises:
        UnavailableError: some are forgotten again and again.
    """
    wanted = sorted(set(meters))
    scopes = {meter.scope for meter in wanted} | {program_scope(program) for program in programs}
    if not scopes:
        return {}
    rows = [(each.scope, each.limit, each.per, each.burst) for each in wanted]
    for _ in range(_TRIES):
        if rows:
            await connection.execute(_SQL["ensure"], now, *(list(column) for column in zip(*rows, strict=True)))
        found = _buckets(await connection.fetch(_SQL["lock"], sorted(scopes)))
        if found.keys() >= set(wanted):  # one that was there and full for long may be forgotten before it is locked
            return found
    raise UnavailableError("buckets of rates are forgotten while they are asked for")


async def standing(connection: Any, meters: Iterable[Meter]) -> Mapping[Meter, Bucket]:
    """The buckets of these scopes as they are; those nobody has asked for yet are missing."""
    scopes = sorted({meter.scope for meter in meters})
    return _buckets(await connection.fetch(_SQL["peek"], scopes)) if scopes else {}


async def settle(connection: Any, known: Mapping[Meter, Bucket], rulings: Sequence[Ruling], now: datetime) -> None:
    """Admitted runs take their tokens of buckets that are `locked`."""
    if known:
        await take(
            connection, known, (scope for each in rulings if isinstance(each, Admit) for scope in each.scopes), now
        )


async def take(connection: Any, known: Mapping[Meter, Bucket], scopes: Iterable[str], now: datetime) -> None:
    """A token for each mention of a scope, of every bucket of it; they are `locked`."""
    runs = Counter(scopes)
    rows: list[tuple[object, ...]] = []
    for meter, bucket in known.items():
        if amount := runs[meter.scope]:
            left = meter.taken(bucket, amount, now)
            full_at = left.at + timedelta(seconds=(meter.burst - left.left) / meter.pace.per_second)
            rows.append((meter.scope, meter.limit, meter.per, meter.burst, left.left, left.at, full_at))
    if rows:
        await connection.execute(_SQL["draw"], *(list(column) for column in zip(*rows, strict=True)))


async def forget(connection: Any, now: datetime) -> None:
    """Buckets that have been full for long are as good as none."""
    await connection.execute(_SQL["forget"], now - _FORGOTTEN)


def _buckets(rows: Iterable[Any]) -> Mapping[Meter, Bucket]:
    return {
        Meter(row["scope"], row["max_runs"], row["per"], row["burst"]): Bucket(row["remaining"], row["at"])
        for row in rows
    }
