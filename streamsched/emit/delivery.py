"""The delivery of events as a pure state machine: what to send, how long to wait, what is left. No I/O and no clock.

`delivery` is a generator that yields steps. The caller executes each step and sends back its result: an `Answer` for
`Send`, None for `RetryAfter`.

    Send ──▶ Accepted    ──▶ next batch
         ──▶ Refused     ──▶ collected; next batch             (an invalid event does not block others)
         ──▶ TooLarge    ──▶ both halves; a single event: Refused
         ──▶ Unreachable ──▶ RetryAfter, Send again; past the deadline: this batch and all later ones are left
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from streamsched.domain.backoff import double_pause
from streamsched.domain.errors import Refusal
from streamsched.domain.events.event import Event

#: Returns a random number from [0, 1).
Jitter = Callable[[], float]


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event and its wire format, encoded once for all attempts."""

    event: Event
    payload: bytes


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """Batch sizes and retry times of a delivery.

    Attributes:
        deadline: total time of attempts and pauses of one `emit` without a spool, or of one `drain`.
        hold: with a spool, the longest duration of one `emit`: events that were not accepted by then, or when a request
            fails, are spooled and sent in the background.
        first: upper bound of the first pause; it doubles with each retry, up to `cap`; the pause is random below it.
        batch_events: most events in one request.
        batch_bytes: most bytes in one request, unless a single event is larger.
    """

    deadline: timedelta = timedelta(seconds=30)
    hold: timedelta = timedelta(seconds=1)
    first: timedelta = timedelta(milliseconds=200)
    cap: timedelta = timedelta(seconds=5)
    batch_events: int = 500
    batch_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Accepted:
    """All events were accepted. `unheard`: their event keys that no schedule listens to, as reported by the server."""

    took: timedelta
    unheard: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """All but these events were accepted; these are refused for good. `unheard` as in `Accepted`."""

    took: timedelta
    refusals: tuple[Refusal, ...]
    unheard: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The request exceeds the server's or log's size limit."""

    took: timedelta


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No usable answer; any part may have been accepted. `wait`: the pause that the server asked for."""

    took: timedelta
    why: str
    wait: timedelta | None = None


Answer = Accepted | Refused | TooLarge | Unreachable


@dataclass(frozen=True, slots=True)
class Send:
    """Sends these events in one request."""

    encoded: Sequence[EncodedEvent]


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """A pause before the next request."""

    pause: timedelta


Step = Send | RetryAfter


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of a delivery.

    Attributes:
        refusals: refused events, by their index in the delivery.
        left: events that were not sent, in order.
        why: why they were not sent.
        unheard: event keys that no schedule listens to, each once.
    """

    accepted: int
    refusals: tuple[Refusal, ...]
    left: tuple[EncodedEvent, ...]
    why: str = ""
    unheard: tuple[str, ...] = ()


def delivery(
    encoded: Sequence[EncodedEvent], patience: RetryLimits, jitter: Jitter
) -> Generator[Step, Answer | None, DeliveryResult]:
    """Delivers in order. In the result, each event is in exactly one of accepted, refusals and left."""
    waiting = batches(encoded, patience)
    waiting.reverse()
    accepted, spent, tries = 0, timedelta(0), 0
    refusals: list[Refusal] = []
    unheard: dict[str, None] = {}
    while waiting:
        batch = waiting.pop()
        answer = yield Send(encoded[batch.start : batch.stop])
        assert answer is not None, "a Send is answered"
        spent += answer.took
        match answer:
            case Accepted(unheard=keys):
                accepted += len(batch)
                unheard |= dict.fromkeys(keys)
                tries = 0
            case Refused(refusals=found, unheard=keys):
                unheard |= dict.fromkeys(keys)
                accepted += len(batch) - len(found)
                refusals += [Refusal(batch.start + bad.index, bad.path, bad.reason) for bad in found]
                tries = 0
            case TooLarge() if len(batch) > 1:
                middle = batch.start + len(batch) // 2
                waiting += [range(middle, batch.stop), range(batch.start, middle)]
            case TooLarge():
                refusals.append(Refusal(batch.start, "$", "is larger than the server accepts"))
            case Unreachable(why=why, wait=asked):
                pause = max(backoff(tries, patience, jitter), asked or timedelta(0))
                if spent + pause >= patience.deadline:
                    return DeliveryResult(accepted, tuple(refusals), tuple(encoded[batch.start :]), why, tuple(unheard))
                yield RetryAfter(pause)
                spent += pause
                tries += 1
                waiting.append(batch)
    return DeliveryResult(accepted, tuple(refusals), (), "", tuple(unheard))


def batches(encoded: Sequence[EncodedEvent], patience: RetryLimits) -> list[range]:
    """Splits the delivery into as few requests as possible, in order; ranges of indexes."""
    cuts, start, size = [], 0, 0
    for index, each in enumerate(encoded):
        full = index - start >= patience.batch_events or size + len(each.payload) > patience.batch_bytes
        if full and index > start:
            cuts.append(range(start, index))
            start, size = index, 0
        size += len(each.payload)
    if start < len(encoded):
        cuts.append(range(start, len(encoded)))
    return cuts


def backoff(tries: int, patience: RetryLimits, jitter: Jitter) -> timedelta:
    """A random pause below a bound that doubles with each retry, so that many emitters spread their retries."""
    return double_pause(patience.first, tries, longest=patience.cap) * jitter()
