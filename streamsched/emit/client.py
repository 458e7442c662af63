"""The emitters: how a job or a service sends events.

    with Emitter("http://127.0.0.1:8765", source="nightly-import", spool="/var/spool/streamsched") as emitter:
        emitter.emit(partitions_added("flights", ["day=2013-01-01"]))

Without a spool, `emit` retries for up to `RetryLimits.deadline` (30 s) and then raises. With a spool it returns within
about `RetryLimits.hold` (1 s): events that the first request did not deliver are written to disk, and a background
thread sends them, oldest first, while the process lives; after that, the next emitter with that spool or `drain` does.
Events keep their ids in every retry, so the server recognises duplicates. Events of one key keep their order.

`delivery` makes the decisions; `Emitter` executes them, blocking; `AsyncEmitter` runs an `Emitter` on its own thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

from streamsched.domain.errors import ConfigurationError, RefusedError, UnavailableError
from streamsched.domain.events.event import Event
from streamsched.emit.delivery import (
    Answer,
    DeliveryResult,
    EncodedEvent,
    RetryAfter,
    RetryLimits,
    Send,
    backoff,
    delivery,
)
from streamsched.emit.destination import NO_DESTINATION, find_destination, token_for
from streamsched.emit.draft import EventDraft, complete_event
from streamsched.emit.http import HttpTransport
from streamsched.emit.log import LogTransport
from streamsched.emit.no_listener_warning import warn_no_listeners
from streamsched.emit.sender import Sender
from streamsched.emit.spool import Spool
from streamsched.log.drivers import open_broker
from streamsched.ports.clock import Clock, SystemClock

log = logging.getLogger("streamsched.emit")

_DEFAULT_LIMITS: Final = RetryLimits()
_CLOCK: Final = SystemClock()


class EventTransport(Protocol):
    """Sends encoded events to a server or a log. For one thread at a time."""

    def encode(self, event: Event) -> bytes:
        """The bytes that `send` takes and that a spool keeps."""
        ...

    def send(self, encoded: Sequence[EncodedEvent]) -> Answer:
        """Sends the events as one request, in order; the answer says what became of them."""
        ...

    def close(self) -> None:
        """Closes its connections. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Emitted:
    """The result of an `emit`.

    Attributes:
        accepted: events that were accepted.
        spooled: events written to the spool, to be sent later.
        unheard: keys of accepted events that no schedule listened to, as reported by the server; empty when it did not
            report any, or when events are appended to the log directly.
    """

    accepted: int
    spooled: int = 0
    unheard: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of a `drain`: events sent, events refused for good (moved to `.refused` files), events still spooled,
    and why those were not sent.
    """

    sent: int
    refused: int
    left: int
    why: str = ""


class Emitter:
    """Sends events to a server (`http://…`) or to the log directly (`postgresql://…`, …). Thread-safe."""

    def __init__(
        self,
        url: str | None = None,
        *,
        source: str,
        spool: str | Path | None = None,
        token: str | None = None,
        patience: RetryLimits = _DEFAULT_LIMITS,
        clock: Clock = _CLOCK,
    ) -> None:
        """Opens no connection.

        Args:
            url: None uses the installation of this process (`emit.destination`): `STREAMSCHED_EMIT_URL`,
                `STREAMSCHED_URL`, or the `streamsched dev` of this folder or one above it; then also its spool, if
                `spool` is None.
            source: default source of events.
            token: of the server; None takes `STREAMSCHED_TOKEN`, or that of the `streamsched dev` with this URL.
            spool: folder for events that cannot be sent at once; without one, `emit` blocks and then raises.

        Raises:
            ConfigurationError: the URL has no host, or there is no URL.
        """
        if url is None:
            found = find_destination()
            if found is None:
                raise ConfigurationError(f"no URL was given, and {NO_DESTINATION}")
            url, spool = found.url, spool or found.spool
        self._source = source
        self._transport = open_transport(url, token_for(url, os.environ) if token is None else token)
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._spool = None if spool is None else Spool(Path(spool), clock)
        self._sender = Sender(self._flush)
        self._pauses = 0
        self._logged_error = ""
        #: Why the last request failed. While it is set, `emit` spools at once; a successful background flush clears it.
        self._away = ""

    def emit(self, *what: EventDraft | Event) -> Emitted:
        """Delivers the events in order. On return, each is either accepted or fsync'd in the spool.

        To repeat a failed call safely, give the events ids: each call stamps a new id on a draft without one.

        Raises:
            RefusedError: some events were refused as invalid; the others were accepted or spooled.
            UnavailableError: without a spool, the server was unreachable for the whole deadline; or the spool cannot be
                written. Nothing is spooled.
            ConfigurationError: the URL is not a streamsched server, or it denies access. Nothing is spooled.
        """
        now = self._clock.now()
        events = [complete_event(each, source=self._source, now=now) for each in what]
        with self._lock:
            outcome = self._deliver(events, self._patience) if self._spool is None else self._within_hold(events)
            left = [each.event for each in outcome.left]
            if left and self._spool is None:
                raise UnavailableError(f"{len(left)} of {len(events)} events were not sent: {outcome.why}")
            if left and self._spool is not None:
                self._keep(self._spool, left, outcome.why)
        warn_no_listeners(outcome.unheard)
        if outcome.refusals:
            raise RefusedError(outcome.refusals, outcome.accepted)
        return Emitted(outcome.accepted, len(left), outcome.unheard)

    def drain(self) -> Drained:
        """Sends the spooled events, oldest first, until none is left or the server is unreachable for the deadline.

        Raises:
            ConfigurationError: as `emit`; spooled events stay.
        """
        with self._lock:
            if self._spool is None or self._spool.is_empty():
                return Drained(0, 0, 0)
            return self._sender.submit(partial(self._drain, self._spool, self._patience)).result()

    def close(self) -> None:
        """Tries once more to send what this emitter spooled. Takes at most about `RetryLimits.hold`."""
        if self._spool is None:
            self._transport.close()
            return
        with self._lock:
            last = self._sender.submit(self._finish)
            try:
                last.result(timeout=self._patience.hold.total_seconds())
            except TimeoutError:  # the thread is a daemon; unsent events are on disk
                self._sender.cancel_flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _within_hold(self, events: Sequence[Event]) -> DeliveryResult:
        """One attempt, for at most `hold`; the rest is to be spooled."""
        hold = self._patience.hold.total_seconds()
        unsent = tuple(EncodedEvent(event, b"") for event in events)
        if self._sender.seconds_stuck() > hold:
            return DeliveryResult(0, (), unsent, "an earlier request has not been answered yet")
        if self._away:
            return DeliveryResult(0, (), unsent, self._away)
        abandoned = threading.Event()
        attempt = self._sender.submit(partial(self._attempt, events, abandoned))
        try:
            return attempt.result(timeout=hold)
        except TimeoutError:
            abandoned.set()
            attempt.cancel()
            self._away = f"not accepted within {hold:g} s"
            return DeliveryResult(0, (), unsent, self._away)

    def _attempt(self, events: Sequence[Event], abandoned: threading.Event) -> DeliveryResult:
        """Sends the spool, then the events. Runs on the sender's thread."""
        assert self._spool is not None
        unsent = tuple(EncodedEvent(event, b"") for event in events)
        once = _without_retries(self._patience)
        if not self._spool.is_empty():
            before = self._drain(self._spool, once)
            if before.left:
                return DeliveryResult(0, (), unsent, before.why)
            if self._spool.has_of({event.key for event in events}):
                return DeliveryResult(0, (), unsent, "another process is sending earlier events of the same keys")
        if abandoned.is_set():
            return DeliveryResult(0, (), unsent, "")
        outcome = self._deliver(events, once)
        self._away = outcome.why
        return outcome

    def _keep(self, spool: Spool, events: Sequence[Event], why: str) -> None:
        try:
            spool.keep(events)
        except OSError as exc:
            raise UnavailableError(
                f"{len(events)} events were neither sent ({why}) nor spooled: the spool {spool.folder}: {exc.strerror}"
            ) from exc
        self._sender.flush_in(backoff(0, self._patience, random.random).total_seconds())
        log.warning("events.spooled count=%d why=%s", len(events), why)

    def _flush(self) -> float | None:
        """Sends the spool once. Returns the seconds until the next attempt, None when it is empty. Never raises."""
        assert self._spool is not None
        try:
            drained = self._drain(self._spool, _without_retries(self._patience))
            if self._spool.is_empty():
                self._pauses, self._logged_error = 0, ""
                log.info("spool.sent count=%d", drained.sent)
                return None
        except Exception as exc:  # noqa: BLE001 (whatever a transport raises, spooled events are retried)
            self._away = ""  # so that the next emit raises it
            if str(exc) != self._logged_error:
                self._logged_error = str(exc)
                log.error("spool.flush_failed why=%s", exc)
        self._pauses += 1
        return backoff(self._pauses, self._patience, random.random).total_seconds()

    def _finish(self) -> None:
        if self._sender.cancel_flush():
            self._flush()
        self._transport.close()

    def _drain(self, spool: Spool, patience: RetryLimits) -> Drained:
        sent = refused = 0
        with closing(spool.claims()) as files:
            for kept in files:
                outcome = self._deliver(kept.events, patience)
                spool.settle(kept, [each.event for each in outcome.left], outcome.refusals)
                warn_no_listeners(outcome.unheard)
                sent += outcome.accepted
                refused += len(outcome.refusals) + kept.dropped_lines
                if kept.unfit:
                    log.error("spool.refused file=%s reason=%s", kept.path.name, kept.unfit)
                for bad in outcome.refusals:
                    log.error("spool.refused file=%s path=%s reason=%s", kept.path.name, bad.path, bad.reason)
                if outcome.left:
                    self._away = outcome.why
                    return Drained(sent, refused, len(outcome.left), outcome.why)
        self._away = ""
        return Drained(sent, refused, 0)

    def _deliver(self, events: Sequence[Event], patience: RetryLimits) -> DeliveryResult:
        encoded = [EncodedEvent(event, self._transport.encode(event)) for event in events]
        steps = delivery(encoded, patience, random.random)
        answer: Answer | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            match step:
                case Send(encoded=batch):
                    answer = self._transport.send(batch)
                case RetryAfter(pause=pause):
                    time.sleep(pause.total_seconds())
                    answer = None


class AsyncEmitter:
    """An `Emitter` for asyncio: the same methods, executed in order on one thread.

    A cancelled call continues on that thread. Repeating it is harmless if the events have ids.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        source: str,
        spool: str | Path | None = None,
        token: str | None = None,
        patience: RetryLimits = _DEFAULT_LIMITS,
        clock: Clock = _CLOCK,
    ) -> None:
        """As `Emitter`."""
        self._emitter = Emitter(url, source=source, spool=spool, token=token, patience=patience, clock=clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamsched-emit")

    async def emit(self, *what: EventDraft | Event) -> Emitted:
        """As `Emitter.emit`; concurrent calls are executed in the order of the calls."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._emitter.emit(*what))

    async def drain(self) -> Drained:
        """As `Emitter.drain`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._emitter.drain)

    async def close(self) -> None:
        """Closes the emitter after the calls in progress."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._emitter.close)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def drain(spool: str | Path, url: str, *, patience: RetryLimits = _DEFAULT_LIMITS) -> Drained:
    """Sends the events in a spool folder, oldest first. Other processes may drain or fill it concurrently.

    Raises:
        ConfigurationError: the URL is not a streamsched server, or it denies access.
    """
    with Emitter(url, source="streamsched/drain", spool=spool, patience=patience) as emitter:
        return emitter.drain()


def _without_retries(patience: RetryLimits) -> RetryLimits:
    """Limits without retries: the first failed request ends the delivery."""
    return replace(patience, deadline=timedelta(0))


def open_transport(url: str, token: str = "") -> EventTransport:
    """The transport for the URL's scheme: HTTP, with this token, or the log.

    Raises:
        ConfigurationError: an HTTP URL without a host.
    """
    if urlsplit(url).scheme in ("http", "https"):
        return HttpTransport(url, token=token)
    return LogTransport(partial(open_broker, url))
