"""A worker that hangs at a marked event: `python -m tests.faults.processes.stuck_process loop|spin|fetch|never`.

`loop`: its fold blocks the event loop for good. `spin`: so it does in C, and no other thread of the process ever runs
again, nor does Python handle a signal. `fetch`: a read of its log never returns, while all else goes on.
The product's own role runs in it; settings come from `STREAMSCHED_*`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from itertools import repeat

from streamsched_brokers.postgres import reader

from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.fold import Folded, TriggerState, fold
from streamsched.domain.signals.signal import Occurred, Signal
from streamsched.ports.broker import Chunk
from streamsched.roles.role import Role, run_role
from streamsched.stream.agents import schedule_home

#: The event that it hangs at.
MARKED = "flights-13"


def blocking(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    """A fold that waits forever."""
    if isinstance(signal, Occurred) and signal.event.id == MARKED:
        threading.Event().wait()
    return fold(state, signal, at=at, cells=cells)


def spinning(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    """A fold that never comes back from C, and keeps Python's interpreter lock."""
    if isinstance(signal, Occurred) and signal.event.id == MARKED:
        deque(repeat(0), maxlen=0)
    return fold(state, signal, at=at, cells=cells)


class HangingReader(reader.PostgresReader):
    """Reads until it has seen the marked event."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        chunks = await super().read(max_records=max_records, timeout=timeout)
        if any(MARKED.encode() in (record.value or b"") for chunk in chunks for record in chunk.records):
            await asyncio.Event().wait()
        return chunks


if __name__ == "__main__":
    if sys.argv[1] == "loop":
        schedule_home.fold = blocking  # type: ignore[assignment]
    elif sys.argv[1] == "spin":
        schedule_home.fold = spinning  # type: ignore[assignment]
    elif sys.argv[1] == "fetch":
        from streamsched_brokers.postgres import driver

        driver.PostgresReader = HangingReader  # type: ignore[misc]
    run_role(Role.WORKER, os.environ)
