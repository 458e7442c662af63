"""Runs one shard on a worker: restarts it from the log when it fails, until it is ended or fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import structlog

from streamsched.domain.backoff import double_pause
from streamsched.domain.errors import ConfigurationError, FencedError, UnavailableError
from streamsched.stream.shards.shard import Shard

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses between restarts, in seconds: doubling from `first` to `most`; after a run of `most` seconds, `first`
    again.
    """

    first: float = 0.2
    most: float = 10.0

    def pauses(self) -> Iterator[float]:
        """Without end; each call begins with `first`."""
        return (double_pause(self.first, retries, longest=self.most) for retries in count())


class ShardRunner:
    """Creates and runs one instance after another of the same shard, until `end` is called or a newer owner fences it.

    After an exception in a turn the same records are read again, after a pause or in smaller turns.
    """

    def __init__(self, make_shard: Callable[[], Shard], *, number: int, back_off: BackOff) -> None:
        self.number = number
        self._make_shard = make_shard
        self._back_off = back_off
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Runs until `end` is called or a newer owner fences the shard; the shard is stopped when it returns.

        Raises:
            ConfigurationError: the shard cannot start, and a restart does not help.
        """
        loop = asyncio.get_running_loop()
        pauses = self._back_off.pauses()
        while not self._ending.is_set():
            began, shard = loop.time(), self._make_shard()
            try:
                await self._run_once(shard)
            except FencedError:
                log.info("shard.fenced", shard=self.number)
                return
            except Exception as error:  # after any failure the shard restarts from the log
                if isinstance(error, ConfigurationError) and not shard.has_started:
                    raise
                if loop.time() - began > self._back_off.most:
                    pauses = self._back_off.pauses()
                pause = self._back_off.first if shard.is_searching else next(pauses)
                if isinstance(error, UnavailableError):  # the broker's failure: a traceback would not explain it
                    log.warning("shard.interrupted", shard=self.number, reason=str(error), again_in_s=pause)
                else:
                    log.exception("shard.failed", shard=self.number, error=repr(error), again_in_s=pause)
                await self._ended_within(pause)

    def end(self) -> None:
        """Makes `run` end: the turn in flight is finished, then the shard stops."""
        self._ending.set()

    async def _run_once(self, shard: Shard) -> None:
        try:
            await shard.start()
            ending = asyncio.ensure_future(self._ending.wait())
            try:
                await asyncio.wait((ending, shard.ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ending.cancel()
            if shard.ended.done():
                shard.ended.result()
        finally:
            await shard.stop()

    async def _ended_within(self, seconds: float) -> None:
        ending = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait((ending,), timeout=seconds)
        ending.cancel()
