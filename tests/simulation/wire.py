"""The way from a process to the log and to PostgreSQL and back: where time passes, and where faults strike."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from streamsched.domain.errors import UnavailableError
from tests.simulation.fault import KILLS, Fate, Fault, Kind
from tests.simulation.loop import PROCESS, WORLD, SimulationLoop

T = TypeVar("T")


class Host(Protocol):
    """Who starts again what was killed, and lets go on what was stopped."""

    def killed(self, process: str, fault: Fault) -> None: ...

    def stopped(self, process: str, fault: Fault) -> None: ...


class Trace:
    """What happened, call by call, as one number: two runs that agree in it were the same."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self.lines: list[str] = []

    def add(self, at: float, who: str, what: str) -> None:
        line = f"{at:.6f} {who} {what}"
        self.lines.append(line)
        self._hash.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class Wire:
    """Every call of every process passes here. A call has its effect in the world's own time, so what is under way
    arrives even when its caller is dead by then."""

    def __init__(self, loop: SimulationLoop, seed: str, fate: Fate, trace: Trace) -> None:
        self._loop = loop
        self._rng = random.Random(seed)
        self.fate = fate
        self._trace = trace
        self.host: Host | None = None

    async def call(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        """Raises:
        UnavailableError: the seed requires it; whether `act` was done, or will be, the caller cannot know.
        """
        met = self._meet(name)
        kind = met.kind if met else None
        seconds = met.seconds if met else 0.0
        if kind is Kind.LOST_CALL:
            await asyncio.sleep(self._leg())
            raise UnavailableError(f"{name} was lost, as the seed requires")
        if kind is Kind.KILL_BEFORE or kind is Kind.STOP_BEFORE:
            await self._strike(met)
        late = seconds if kind in {Kind.SLOW_CALL, Kind.STRAY} else 0.0
        under_way = self._loop.spawn(WORLD, self._act(self._leg() + late, act))
        if kind is Kind.KILL_DURING or kind is Kind.STOP_DURING:
            await self._strike(met)
        if kind is Kind.STRAY:
            under_way.add_done_callback(_ignored)
            await asyncio.sleep(self._leg())
            raise UnavailableError(f"it is unknown what became of {name}, as the seed requires")
        outcome = await asyncio.shield(under_way)
        if kind is Kind.KILL_AFTER:
            await self._strike(met)
        await asyncio.sleep(self._leg() + (seconds if kind is Kind.SLOW_REPLY else 0.0))
        if kind is Kind.LOST_REPLY:
            raise UnavailableError(f"the answer to {name} was lost, as the seed requires")
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    async def read(self, name: str) -> None:
        """What befalls a read that has brought something; it has no effect on anything but its reader.

        Raises:
            UnavailableError: the seed requires it.
        """
        met = self._meet(name)
        if met is None:
            return
        match met.kind:
            case Kind.LOST_CALL | Kind.LOST_REPLY | Kind.STRAY:
                raise UnavailableError(f"{name} was lost, as the seed requires")
            case Kind.SLOW_CALL | Kind.SLOW_REPLY:
                await asyncio.sleep(met.seconds)
            case _:
                await self._strike(met)

    def _meet(self, name: str) -> Fault | None:
        who = PROCESS.get()
        if who == WORLD:
            return None
        met = self.fate.next()
        self._trace.add(self._loop.time(), who, name if met is None else f"{name}: {met}")
        return met

    async def _strike(self, met: Fault | None) -> None:
        assert met is not None
        assert self.host is not None
        who = PROCESS.get()
        if met.kind in KILLS:
            self.host.killed(who, met)
            await self._loop.create_future()  # nothing of it goes on
        self.host.stopped(who, met)
        await asyncio.sleep(0)

    async def _act(self, after: float, act: Callable[[], Awaitable[T]]) -> tuple[T, None] | tuple[None, Exception]:
        await asyncio.sleep(after)
        try:
            return await act(), None
        except Exception as exc:  # noqa: BLE001 an answer like any other: it travels back to the caller
            return None, exc

    def _leg(self) -> float:
        """Seconds to a server, or back: a millisecond or two, now and then a hundred."""
        return self._rng.expovariate(1000) + (0.1 if self._rng.random() < 0.01 else 0.0)


def _ignored(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()
