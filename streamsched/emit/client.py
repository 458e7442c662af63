"""The emitters: what a job or a service holds in its hand.

    with Emitter("http://127.0.0.1:8765", source="nightly-import", spool="/var/spool/streamsched") as emitter:
        emitter.emit(partitions_added("flights", ["day=2013-01-01"]))

An emitter first sends what its spool kept, oldest first, then what it is given; while the far end is away, new events
go to the spool, behind the old ones, and so they do while another process is sending older ones of their keys. What it
once stamped keeps its id through every retry, so a repeat is recognised.

`delivery` decides; `Emitter` carries out, blocking; `AsyncEmitter` is that one on a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

from streamsched.domain.errors import RefusedError, UnavailableError
from streamsched.domain.event import Event
from streamsched.emit.delivery import Answer, Outcome, Parcel, Patience, Send, Wait, delivery
from streamsched.emit.draft import Draft, stamped
from streamsched.emit.http import HttpLink
from streamsched.emit.log import LogLink
from streamsched.emit.spool import Spool
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.drivers import open_broker

log = logging.getLogger("streamsched.emit")

#: A file of the spool that others fill gets no longer than this to be sent.
_PATIENT: Final = Patience()
_CLOCK: Final = SystemClock()


class Link(Protocol):
    """A way to a far end, for one thread at a time."""

    def encode(self, event: Event) -> bytes: ...

    def send(self, parcels: Sequence[Parcel]) -> Answer: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Emitted:
    """What became of an `emit`: taken by the far end, or kept on disk for a later one."""

    accepted: int
    spooled: int = 0


@dataclass(frozen=True, slots=True)
class Drained:
    """What became of a spool: events sent, events the far end will never take (set aside), events still kept."""

    sent: int
    refused: int
    left: int
    why: str = ""


class Emitter:
    """Sends events to a server (`http://…`) or straight to the log (`postgresql://…`, …). Safe for several threads."""

    def __init__(
        self,
        url: str,
        *,
        source: str,
        spool: str | Path | None = None,
        patience: Patience = _PATIENT,
        clock: Clock = _CLOCK,
    ) -> None:
        """Opens nothing yet.

        Args:
            source: who says so, for events that name no source of their own.
            spool: a folder for what cannot be sent; without one, `emit` raises then.

        Raises:
            ConfigurationError: the URL has no host.
        """
        self._source = source
        self._link = open_link(url)
        self._spool = None if spool is None else Spool(Path(spool), clock)
        self._patience = patience
        self._clock = clock
        self._busy = threading.Lock()

    def emit(self, *what: Draft | Event) -> Emitted:
        """Delivers the events in order. When it returns, each is either taken by the far end or fsync'd in the spool.

        A caller that repeats a failed call should have given the events ids: a draft without one gets a new id.

        Raises:
            RefusedError: the far end refused some for what they say; the others are taken or kept.
            UnavailableError: the far end is away for longer than the deadline, and there is no spool.
            ConfigurationError: the far end is not what it should be, or does not let us in; nothing is kept.
        """
        now = self._clock.now()
        events = [stamped(each, source=self._source, now=now) for each in what]
        with self._busy:
            if self._spool is not None and not self._spool.empty():
                before = self._drain(self._spool)
                if before.left:
                    return self._keep(self._spool, events, accepted=0, why=before.why)
                if self._spool.has_of({event.key for event in events}):
                    return self._keep_behind(self._spool, events)
            outcome = self._deliver(events)
            left = [parcel.event for parcel in outcome.left]
            if not left:
                emitted = Emitted(outcome.accepted)
            elif self._spool is not None:
                emitted = self._keep(self._spool, left, accepted=outcome.accepted, why=outcome.why)
            else:
                raise UnavailableError(f"{len(left)} of {len(events)} events were not sent: {outcome.why}")
        if outcome.refusals:
            raise RefusedError(outcome.refusals, outcome.accepted)
        return emitted

    def drain(self) -> Drained:
        """Sends what the spool kept, oldest first, until it is empty or the far end is away."""
        with self._busy:
            return Drained(0, 0, 0) if self._spool is None else self._drain(self._spool)

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, spool: Spool, events: Sequence[Event], *, accepted: int, why: str) -> Emitted:
        spool.keep(events)
        log.warning("events.spooled count=%d why=%s", len(events), why)
        return Emitted(accepted, len(events))

    def _keep_behind(self, spool: Spool, events: Sequence[Event]) -> Emitted:
        """Whoever sends what is before them finds them next; if that was done just now, it is for us to send them."""
        emitted = self._keep(spool, events, accepted=0, why="another process is sending what comes before them")
        self._drain(spool)
        return emitted

    def _drain(self, spool: Spool) -> Drained:
        sent = refused = 0
        while True:
            with spool.oldest() as kept:
                if kept is None:
                    return Drained(sent, refused, 0)
                outcome = self._deliver(kept.events)
                spool.settle(kept, [parcel.event for parcel in outcome.left], outcome.refusals)
            sent += outcome.accepted
            refused += len(outcome.refusals) + len(kept.unreadable)
            for bad in outcome.refusals:
                log.error("spool.refused file=%s path=%s reason=%s", kept.path.name, bad.path, bad.reason)
            if outcome.left:
                return Drained(sent, refused, len(outcome.left), outcome.why)

    def _deliver(self, events: Sequence[Event]) -> Outcome:
        parcels = [Parcel(event, self._link.encode(event)) for event in events]
        steps = delivery(parcels, self._patience, random.random)
        answer: Answer | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            match step:
                case Send(parcels=batch):
                    answer = self._link.send(batch)
                case Wait(pause=pause):
                    time.sleep(pause.total_seconds())
                    answer = None


class AsyncEmitter:
    """An `Emitter` for asyncio: the same calls, awaited, carried out in order on one thread of its own.

    A cancelled call goes on in its thread; as its events keep their ids, saying them again does no harm.
    """

    def __init__(
        self,
        url: str,
        *,
        source: str,
        spool: str | Path | None = None,
        patience: Patience = _PATIENT,
        clock: Clock = _CLOCK,
    ) -> None:
        """As `Emitter`."""
        self._emitter = Emitter(url, source=source, spool=spool, patience=patience, clock=clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamsched-emit")

    async def emit(self, *what: Draft | Event) -> Emitted:
        """As `Emitter.emit`; calls made side by side are carried out in the order they were made."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._emitter.emit(*what))

    async def drain(self) -> Drained:
        """As `Emitter.drain`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._emitter.drain)

    async def close(self) -> None:
        """Ends after the calls under way."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._emitter.close)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def drain(spool: str | Path, url: str, *, patience: Patience = _PATIENT) -> Drained:
    """Sends what any process left in the spool folder, oldest first. Safe beside others that drain or fill it.

    Raises:
        ConfigurationError: the far end is not what it should be, or does not let us in.
    """
    with Emitter(url, source="streamsched/drain", spool=spool, patience=patience) as emitter:
        return emitter.drain()


def open_link(url: str) -> Link:
    """The way the URL's scheme names.

    Raises:
        ConfigurationError: an HTTP URL without a host.
    """
    if urlsplit(url).scheme in ("http", "https"):
        return HttpLink(url)
    return LogLink(partial(open_broker, url))
