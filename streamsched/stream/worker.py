"""A worker: the shards its leases say, each in a tenure of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from streamsched.codec import state as state_codec
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.membership.member import Member
from streamsched.membership.pulse import Pulse
from streamsched.ports.broker import Broker
from streamsched.ports.leases import Holder, Leases, shard_lease, shard_of
from streamsched.ports.topics import SIGNALS
from streamsched.stream.caution import Caution
from streamsched.stream.edition import Edition
from streamsched.stream.memo import Memo
from streamsched.stream.shard import Shard, ShardSettings
from streamsched.stream.signs import Signs
from streamsched.stream.tenure import BackOff, Tenure

log = structlog.get_logger()

#: For `gc.set_threshold` in a process that runs shards: its heap is full of long-lived events and states, and looking
#: through them at Python's own pace costs two fifths of all CPU under load.
GC_THRESHOLDS: Final = (50_000, 20, 100)


class Worker:
    """Runs its balanced share of the shards; several workers on one log share them by leases.

    A lease decides who should run a shard, the fence in the log decides who does: two workers that both believe they
    own one do no harm.
    """

    def __init__(
        self,
        broker: Broker,
        leases: Leases,
        identity: Holder,
        *,
        ttl: timedelta = timedelta(seconds=5),
        settings: ShardSettings | None = None,
        back_off: BackOff | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        """`ttl`: how long this worker may be silent before others take its shards; it beats four times as often.
        `pulse`: whether the log answers this process; it is asked by somebody else. While it is lost, this worker
        steps aside for others.
        """
        self._broker = broker
        self._leases = leases
        self._identity = identity
        self._ttl = ttl
        self._edition = Edition()
        self._settings = replace(settings or ShardSettings(), edition=self._edition)
        self._back_off = back_off or BackOff()
        self._memo = Memo()
        self._pulse = pulse
        self._joined = self._aside = False
        self._others = False
        self._member: Member | None = None
        self._tenures: dict[int, tuple[Tenure, asyncio.Task[None]]] = {}
        self._signs: dict[int, Signs] = {}
        self._stop = asyncio.Event()

    @property
    def shards(self) -> Sequence[int]:
        """The shards this worker runs or is about to run."""
        return sorted(self._tenures)

    @property
    def joined(self) -> bool:
        """Whether it takes part: its first beat was heard, and it has not stepped aside."""
        return self._joined and not self._aside

    def signs(self) -> Mapping[int, Signs]:
        """How its shards are; may be asked from any thread."""
        return self._signs.copy()

    def epoch(self, shard: int) -> int | None:
        """Of its lease on a shard; None when it holds none."""
        return None if self._member is None else self._member.epoch(shard_lease(shard))

    async def run(self) -> None:
        """Until `stop` or cancellation; then every shard finishes its turn and its lease is given back."""
        member = await self._membership()
        try:
            while not self._stop.is_set():
                pause = await self.run_once()
                stopping = asyncio.ensure_future(self._stop.wait())
                await asyncio.wait((stopping,), timeout=pause.total_seconds())
                stopping.cancel()
        finally:
            await self._end_all()
            with suppress(UnavailableError):  # the leases run out by themselves
                await member.leave()

    async def stop(self) -> None:
        """Asks `run` to end."""
        self._stop.set()

    async def run_once(self) -> timedelta:
        """One beat: starts the shards taken, lets go of those lost or wanted elsewhere; when to beat again.

        Starting and stopping go on beside the beats, so a long recovery costs no lease.
        """
        member = await self._membership()
        try:
            if await self._stepped_aside(member):
                return self._ttl / 4
            step = await member.step()
        except UnavailableError as error:
            log.warning("membership.unavailable", error=str(error))
            return self._ttl / 4
        except ConfigurationError:
            raise
        except Exception as error:  # shards need the log and no lease: whoever takes them meanwhile fences them
            log.exception("membership.failed", error=repr(error))
            return self._ttl / 4
        self._joined, self._others = True, step.others
        self._edition.version = state_codec.version_for(step.format)
        for name in step.lost:  # first: what was lost may have been taken again in the same beat
            self._let_go(shard_of(name))
        for name in sorted({*step.taken, *self._untended(member)}):
            self._take(member, shard_of(name))
        for name in step.hand_over:
            self._let_go(shard_of(name))
        return step.again_in

    def _untended(self, member: Member) -> Iterator[str]:
        """What is held and run by nobody, whatever became of its tenure: its lease would be renewed for ever."""
        for name in member.held:
            tenure = self._tenures.get(shard_of(name))
            if tenure is None or tenure[1].done():
                yield name

    async def _stepped_aside(self, member: Member) -> bool:
        """Cut off from the log, it leaves its shards to those who may reach it, and joins again when the log answers.
        Alone it stays: nobody could do better.
        """
        if self._pulse is None or not self._pulse.lost:
            if self._aside:
                log.info("worker.joined_again", worker=self._identity.id)
            self._aside = False
            return False
        if not self._aside and self._others:
            log.warning("worker.stepped_aside", worker=self._identity.id, log_silent_s=round(self._pulse.silent_s, 1))
            for tenure, _ in list(self._tenures.values()):
                tenure.end()
            await member.leave()
            self._aside = True
        return self._aside

    async def _membership(self) -> Member:
        if self._member is None:
            names = [shard_lease(shard) for shard in range(await self._broker.partitions(SIGNALS))]
            self._member = Member(self._leases, self._identity, names, ttl=self._ttl, settle=self._ttl)
        return self._member

    def _take(self, member: Member, number: int) -> None:
        log.info("shard.taken", shard=number, worker=self._identity.id)
        before = self._tenures.get(number)
        caution, signs = Caution(), Signs()
        self._signs[number] = signs
        tenure = Tenure(
            lambda: Shard(self._broker, number, self._settings, memo=self._memo, caution=caution, signs=signs),
            number=number,
            back_off=self._back_off,
            caution=caution,
        )
        task = asyncio.create_task(self._hold(member, tenure, before[1] if before else None))
        self._tenures[number] = tenure, task
        if before:
            before[0].end()

    async def _hold(self, member: Member, tenure: Tenure, before: asyncio.Task[None] | None) -> None:
        """A tenure after the one before it on this worker, up to giving the lease back."""
        if before is not None:
            await asyncio.wait((before,))
        await tenure.run()
        current = self._tenures.get(tenure.number)
        if current is not None and current[0] is tenure:
            del self._tenures[tenure.number], self._signs[tenure.number]
            log.info("shard.let_go", shard=tenure.number, worker=self._identity.id)
            with suppress(UnavailableError):  # the lease runs out by itself
                await member.release(shard_lease(tenure.number))

    def _let_go(self, number: int) -> None:
        if number in self._tenures:
            self._tenures[number][0].end()

    async def _end_all(self) -> None:
        tasks = [task for _, task in self._tenures.values()]
        for tenure, _ in list(self._tenures.values()):
            tenure.end()
        if tasks:
            await asyncio.wait(tasks)
