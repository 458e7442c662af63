"""What an installation takes: memory, CPU time and open files of its processes, rows and bytes of its tables, records
and bytes of its topics, files of its folder.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

import asyncpg
import psutil
from streamsched_brokers.kafka.driver import KafkaBroker

from streamsched.log.topics import ALL_TOPICS
from streamsched.ports.broker import Broker
from tests.faults.sites.postgres_server import postmaster

_GONE: Final = (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError)
#: A partition counts to its table. What a trial itself writes down is none of the product's.
_TABLES: Final = """
SELECT coalesce(parent.relname, s.relname)::text AS name,
    sum(greatest(s.n_live_tup, 0))::bigint AS rows, sum(pg_total_relation_size(s.relid))::bigint AS bytes
FROM pg_stat_user_tables s
LEFT JOIN pg_inherits i ON i.inhrelid = s.relid LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE s.relname NOT LIKE 'trial_%' AND pg_total_relation_size(s.relid) IS NOT NULL
GROUP BY 1
"""
_TOPICS: Final = """
SELECT t.name, coalesce(sum(b.count), 0)::bigint AS records, coalesce(sum(b.bytes), 0)::bigint AS bytes
FROM streamsched_log.topic t LEFT JOIN streamsched_log.batch b USING (topic_id) GROUP BY 1
"""


class ProcessUse(NamedTuple):
    """Of one process, or of several together.

    Attributes:
        rss, pss: resident bytes; those that are shared count as a whole in each process, or are divided among them.
        own: of the latter those that are no file's and in no shared memory, such as a heap.
        descriptors: open files, sockets and pipes.
        cpu_s: CPU seconds since the start of each.
    """

    rss: int = 0
    pss: int = 0
    own: int = 0
    descriptors: int = 0
    cpu_s: float = 0.0

    @classmethod
    def of(cls, processes: Iterable[psutil.Process]) -> Self:
        """Those that are gone take nothing."""
        found = [each for process in processes if (each := cls._read(process)) is not None]
        return cls(*map(sum, zip(*found, strict=True))) if found else cls()

    @classmethod
    def _read(cls, process: psutil.Process) -> Self | None:
        try:
            times = process.cpu_times()
            rollup = _rollup(process.pid)
            cpu_s = times.user + times.system
            return cls(process.memory_info().rss, rollup["Pss"], rollup["Pss_Anon"], process.num_fds(), cpu_s)
        except _GONE:
            return None


class Amount(NamedTuple):
    """Rows of a table, records of a topic, or files of a folder, and their bytes."""

    many: int
    size: int


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all that it started; none when it is gone."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def postgres_processes(folder: Path) -> list[psutil.Process]:
    """The server of a data folder and its backends."""
    return process_tree(postmaster(folder).pid)


async def tables(pool: asyncpg.Pool) -> Mapping[str, Amount]:
    """By name; rows as PostgreSQL estimates them."""
    return {row["name"]: Amount(row["rows"], row["bytes"]) for row in await pool.fetch(_TABLES)}


async def topics(broker: Broker, pool: asyncpg.Pool) -> Mapping[str, Amount]:
    """By name; `pool` is of the log where that is in PostgreSQL."""
    if not isinstance(broker, KafkaBroker):
        return {row["name"]: Amount(row["records"], row["bytes"]) for row in await pool.fetch(_TOPICS)}
    names = (broker._link.address.prefix + name for name in ALL_TOPICS)
    sizes = await asyncio.gather(*(broker.topic_size(name, sizes=True) for name in names))
    parts = {name: size.partitions.values() for name, size in zip(ALL_TOPICS, sizes, strict=True)}
    return {
        name: Amount(sum(each.end - each.start for each in some), sum(each.size for each in some))
        for name, some in parts.items()
    }


def folder(path: Path) -> Amount:
    """All files below it."""
    sizes = list(_file_sizes(path))
    return Amount(len(sizes), sum(sizes))


def _file_sizes(path: Path) -> Iterator[int]:
    for where, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(where, name).lstat().st_size


def _rollup(pid: int) -> Mapping[str, int]:
    """The bytes of a process's memory by their kind."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {name.rstrip(":"): int(kib) << 10 for name, kib, *_ in lines}
