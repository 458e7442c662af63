"""Two workers as processes, and what befalls them."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import assert_never
from uuid import uuid4

from compose.kafka.cluster import Cluster

LEASE_S = 3.0
ROOT = Path(__file__).parents[2]


class Misfortune(StrEnum):
    """What one trial tries.

    A worker is killed and back at once, or back when others have its shards; a worker stands still for longer than its
    leases last and goes on; a broker of the log is killed and comes back.
    """

    QUICK = "quick"
    LATE = "late"
    STOP = "stop"
    BROKER = "broker"


@dataclass(slots=True)
class Crew:
    """The two worker processes, and the log's own broker where it is ours to kill."""

    database: str
    log: str
    scratch: Path
    cluster: Cluster | None = None
    named: bool = False
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, place: int) -> None:
        name = f"worker-{place}" if self.named else f"worker-{place}-{uuid4().hex[:6]}"
        with (self.scratch / f"worker-{place}.log").open("ab") as log:
            self.running[place] = subprocess.Popen(
                (sys.executable, "-m", "tests.faults.worker_process", self.database, self.log, name, str(LEASE_S)),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def revive(self) -> None:
        """Starts again what ended by itself, as whoever supervises processes does."""
        for place, process in list(self.running.items()):
            if process.poll() is not None:
                self.start(place)

    def kill(self, place: int) -> None:
        process = self.running.pop(place)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


async def misfortune(crew: Crew, kind: Misfortune, dice: random.Random) -> None:
    """What happens at a random moment, up to the moment when all are there again."""
    place = dice.randrange(2)
    await asyncio.sleep(dice.uniform(1.0, 4.0))
    crew.named = dice.random() < 0.5
    match kind:
        case Misfortune.STOP:
            process = crew.running[place]
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(10)
            process.send_signal(signal.SIGCONT)
        case Misfortune.QUICK | Misfortune.LATE:
            crew.kill(place)
            await asyncio.sleep(0.3 if kind is Misfortune.QUICK else dice.uniform(2, 3) * LEASE_S)
            crew.start(place)
        case Misfortune.BROKER:
            assert crew.cluster is not None
            node = dice.choice(crew.cluster.numbers)
            await asyncio.to_thread(crew.cluster.kill, node)
            await asyncio.sleep(dice.uniform(0, 3))
            await asyncio.to_thread(crew.cluster.start, node)
        case _:
            assert_never(kind)
