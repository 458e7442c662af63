"""Reads the load of clusters that jobs wait for, and of no others; one launcher reads, all use the stored reading."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.constraints.load import ClusterReading
from streamsched.domain.errors import SYSTEMIC, UnavailableError, describe_failure
from streamsched.ports.clock import Clock
from streamsched.ports.cluster_probe import Probe
from streamsched.ports.notifier import PROBES, Notifier
from streamsched.process.run_forever import run_forever
from streamsched.store.limits.clusters import ClusterStore

log = structlog.get_logger()

_EVERY: Final = timedelta(seconds=5)
_TIMEOUT: Final = timedelta(seconds=4)
#: Seconds.
_IDLE: Final = 30.0


class ClusterProbes:
    """Belongs to one task; several may run at a time."""

    def __init__(self, store: ClusterStore, probes: Mapping[str, Probe], notifier: Notifier, clock: Clock) -> None:
        self._store = store
        self._probes = probes
        self._notifier = notifier
        self._clock = clock

    async def run(self) -> None:
        """Reads until cancelled; retries while PostgreSQL is unavailable."""
        async with self._notifier.listen(PROBES) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="probes")

    async def run_once(self) -> int:
        """Reads every cluster whose reading is wanted and old, concurrently; returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        wanted = await self._store.claim_wanted(self._clock.now(), every=_EVERY, patience=_TIMEOUT)
        await asyncio.gather(*(self._read(cluster) for cluster in wanted))
        return len(wanted)

    async def _read(self, cluster: str) -> None:
        probe = self._probes.get(cluster)
        try:
            if probe is None:
                known = ", ".join(sorted(self._probes)) or "none"
                raise UnavailableError(f"STREAMSCHED_CLUSTERS does not name it (known: {known})")
            async with asyncio.timeout(_TIMEOUT.total_seconds()):
                reading = await probe.read()
        except TimeoutError:
            await self._record_failure(cluster, f"it did not answer within {_TIMEOUT.total_seconds():g} s")
        except UnavailableError as exc:
            await self._record_failure(cluster, describe_failure(exc))
        except Exception as exc:  # noqa: BLE001 - third-party code; the launcher continues whatever it raises
            await self._record_failure(cluster, f"its probe failed: {describe_failure(exc)}")
        else:
            await self._record(cluster, reading)

    async def _record(self, cluster: str, reading: ClusterReading) -> None:
        try:
            woken = await self._store.record_reading(cluster, reading, now=self._clock.now())
        except SYSTEMIC:
            raise
        except Exception as exc:  # noqa: BLE001 - third-party code may return anything
            await self._record_failure(cluster, f"its reading cannot be used: {describe_failure(exc)}")
        else:
            log.debug("cluster.read", cluster=cluster, reading=str(reading), woken=woken)

    async def _record_failure(self, cluster: str, reason: str) -> None:
        log.warning("cluster.read_failed", cluster=cluster, reason=reason)
        await self._store.record_failure(cluster, reason, now=self._clock.now())

    async def _step(self) -> float:
        await self.run_once()
        now = self._clock.now()
        due = await self._store.next_due_at(now, every=_EVERY)
        return _IDLE if due is None else min(max((due - now).total_seconds(), 0.05), _IDLE)
