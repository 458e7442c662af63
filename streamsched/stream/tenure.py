"""One worker's time with one shard: it runs, starts over from the log when it fails, and ends when told or fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.stream.caution import Caution
from streamsched.stream.shard import Shard

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses between two attempts, in seconds: doubling from `first` to `most`. A shard that ran for `most` seconds
    begins anew with `first`."""

    first: float = 0.2
    most: float = 10.0

    def pauses(self) -> Iterator[float]:
        pause = self.first
        while True:
            yield pause
            pause = min(pause * 2, self.most)


class Tenure:
    """Runs shard after shard of one number, each a fresh start from the log, until `end` or a fence.

    An exception in a turn is never skipped: the same records come again, after a pause, or in halves.
    """

    def __init__(
        self, make_shard: Callable[[], Shard], *, number: int, back_off: BackOff, caution: Caution | None = None
    ) -> None:
        """`caution`: what its shards share."""
        self.number = number
        self._caution = caution or Caution()
        self._make_shard = make_shard
        self._back_off = back_off
        self._shard: Shard | None = None
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Until `end` was called or a newer owner has fenced this one; returns with the shard stopped."""
        loop = asyncio.get_running_loop()
        pauses = self._back_off.pauses()
        while not self._ending.is_set():
            began = loop.time()
            try:
                await self._one_life()
            except FencedError:
                log.info("shard.fenced", shard=self.number)
                return
            except Exception as error:  # whatever it was, the log is the truth and the shard starts over from it
                if loop.time() - began > self._back_off.most:
                    pauses = self._back_off.pauses()
                pause = self._back_off.first if self._caution.searching else next(pauses)
                if isinstance(error, UnavailableError):  # the far end's, so our own stack explains nothing
                    log.warning("shard.interrupted", shard=self.number, reason=str(error), again_in_s=pause)
                else:
                    log.exception("shard.failed", shard=self.number, error=repr(error), again_in_s=pause)
                await self._ended_within(pause)

    def end(self) -> None:
        """Asks for the end: the turn in flight is finished, then the shard stops."""
        self._ending.set()

    async def _one_life(self) -> None:
        self._caution.begin()
        shard = self._make_shard()
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
