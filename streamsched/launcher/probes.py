"""Probes: asks clusters for their load while jobs wait for it, and only then; one launcher asks, all know."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.domain.errors import UnavailableError
from streamsched.ports.bell import PROBES, Bell
from streamsched.ports.clock import Clock
from streamsched.ports.clusters import Board, Probe

log = structlog.get_logger()

_EVERY: Final = timedelta(seconds=5)
_PATIENCE: Final = timedelta(seconds=4)
_IDLE: Final = 30.0


class Probes:
    """Belongs to one task; any number may work side by side."""

    def __init__(self, board: Board, probes: Mapping[str, Probe], bell: Bell, clock: Clock) -> None:
        self._board = board
        self._probes = probes
        self._bell = bell
        self._clock = clock

    async def run(self) -> None:
        """Asks until cancelled; while PostgreSQL is away it waits for it."""
        async with self._bell.listen(PROBES) as ring:
            await attend(self._look, rest=ring.wait, called="probes")

    async def run_once(self) -> int:
        """Asks every cluster whose reading is wanted and old, all at once; returns how many were asked.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        wanted = await self._board.wanted(self._clock.now(), every=_EVERY, patience=_PATIENCE)
        await asyncio.gather(*(self._ask(cluster) for cluster in wanted))
        return len(wanted)

    async def _ask(self, cluster: str) -> None:
        probe = self._probes.get(cluster)
        try:
            if probe is None:
                known = ", ".join(sorted(self._probes)) or "none"
                raise UnavailableError(f"STREAMSCHED_CLUSTERS does not name it (known: {known})")
            async with asyncio.timeout(_PATIENCE.total_seconds()):
                reading = await probe.read()
        except TimeoutError:
            await self._failed(cluster, f"it did not answer within {_PATIENCE.total_seconds():g} s")
        except UnavailableError as exc:
            await self._failed(cluster, str(exc))
        except Exception as exc:  # noqa: BLE001 - a probe may be anybody's; the launcher goes on whatever it raises
            await self._failed(cluster, f"its probe failed: {type(exc).__name__}: {exc}")
        else:
            woken = await self._board.told(cluster, reading, now=self._clock.now())
            log.debug("cluster.read", cluster=cluster, said=str(reading), woken=woken)

    async def _failed(self, cluster: str, reason: str) -> None:
        log.warning("cluster.silent", cluster=cluster, reason=reason)
        await self._board.failed(cluster, reason, now=self._clock.now())

    async def _look(self) -> float:
        await self.run_once()
        now = self._clock.now()
        due = await self._board.next_due(now, every=_EVERY)
        return _IDLE if due is None else min(max((due - now).total_seconds(), 0.05), _IDLE)
