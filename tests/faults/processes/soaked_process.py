"""One role of a soak as a process: as `role_process`, and housekeeping does in minutes what it does in hours, so that
what is kept for a minute is gone soon after it: `python -m tests.faults.processes.soaked_process ROLE NAME RUNNERS`.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path

from streamsched_brokers.postgres import driver
from streamsched_brokers.postgres.compaction import Housekeeping

from streamsched.catalog import verdicts as verdict_intake
from streamsched.domain.decisions.retention import TimePartition
from streamsched.graph import retention as node_retention
from streamsched.launcher import backfill_feeding, retention
from streamsched.log import maintenance, topics
from streamsched.spark import log_cleanup
from streamsched.store.events import verdicts
from streamsched.store.jobs import decision_reads
from streamsched.store.webhooks import webhooks
from streamsched.timers import evidence
from tests.faults.processes.role_process import main, replace
from tests.faults.sites.minute_partitions import make_partitions_short

MINUTE = timedelta(minutes=1)
#: Decoded definitions that a launcher keeps: thousands would fill its memory for the first hour.
_CACHED = 256


def part_of(at: datetime, keep: timedelta, *, months: bool = False) -> TimePartition:
    """Of every table partitioned by time: a minute."""
    del keep, months
    begins = at.astimezone(UTC).replace(second=0, microsecond=0)
    return TimePartition(begins, begins + MINUTE)


def hasten_housekeeping() -> None:
    """Partitions of a minute, and every pass after some seconds."""
    replace(retention, "part_of", part_of)
    replace(verdicts, "part_of", part_of)
    soon = timedelta(seconds=10)
    replace(verdict_intake, "_DELETE_EVERY", soon)
    replace(backfill_feeding, "_FORGET", soon)
    replace(evidence, "_FORGET_EVERY", soon)
    replace(webhooks, "POLICY", dataclasses.replace(webhooks.POLICY, dedupe=soon))
    replace(driver, "Housekeeping", partial(Housekeeping, least=100))
    for module in (maintenance, node_retention, log_cleanup):
        replace(module, "_EVERY", 10.0)
    replace(topics, "_HOUR", MINUTE)
    for name in ("_schedule", "_program"):
        replace(decision_reads, name, lru_cache(_CACHED)(getattr(decision_reads, name).__wrapped__))


if __name__ == "__main__":
    hasten_housekeeping()
    make_partitions_short(os.environ["STREAMSCHED_DATABASE_URL"])
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), None)
