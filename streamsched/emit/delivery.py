"""How events get delivered, decided as values: what to send, how long to wait, what to keep. No I/O and no clock.

`delivery` is a generator. It yields a `Step`; whoever drives it carries the step out and sends back what came of it:
an `Answer` to `Send`, nothing to the others. Two drivers exist, one blocking and one not (`client`), and neither
decides anything.

    Send ──▶ Accepted ──▶ next batch                           (all batches gone: Delivered)
         ──▶ Refused  ──▶ remembered, next batch               (a bad event blocks nobody and is never kept)
         ──▶ TooLarge ──▶ both halves; one event alone: Refused
         ──▶ Away     ──▶ Wait, Send again; past the deadline: Keep this batch and all after it
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from streamsched.domain.errors import Refusal
from streamsched.domain.event import Event

#: A number from [0, 1).
Dice = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Parcel:
    """An event and its bytes on the wire; encoded once, however often it is sent."""

    event: Event
    payload: bytes


@dataclass(frozen=True, slots=True)
class Patience:
    """How a delivery batches and how long it tries.

    Attributes:
        deadline: tries and waits of one `emit` together; then it keeps the rest.
        first: limit of the first wait; it doubles with each try, up to `cap`; the wait is drawn from below it.
        batch_events: most events of one request.
        batch_bytes: most bytes of one request, unless one event alone is larger.
    """

    deadline: timedelta = timedelta(seconds=30)
    first: timedelta = timedelta(milliseconds=200)
    cap: timedelta = timedelta(seconds=5)
    batch_events: int = 500
    batch_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Accepted:
    """The far end has all of it."""

    took: timedelta


@dataclass(frozen=True, slots=True)
class Refused:
    """The far end has all but these, and will never take them."""

    took: timedelta
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The far end takes no request of this size."""

    took: timedelta


@dataclass(frozen=True, slots=True)
class Away:
    """The far end did not answer, or not with sense; it may have taken any part. `wait` is what it asked for."""

    took: timedelta
    why: str
    wait: timedelta | None = None


Answer = Accepted | Refused | TooLarge | Away


@dataclass(frozen=True, slots=True)
class Send:
    parcels: Sequence[Parcel]


@dataclass(frozen=True, slots=True)
class Wait:
    pause: timedelta


Step = Send | Wait


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a delivery. `left` are the parcels nobody took, in order; `refusals` index into the delivery."""

    accepted: int
    refusals: tuple[Refusal, ...]
    left: tuple[Parcel, ...]
    why: str = ""


def delivery(parcels: Sequence[Parcel], patience: Patience, dice: Dice) -> Generator[Step, Answer | None, Outcome]:
    """Delivers in order. An event is in exactly one of accepted, refusals and left when it ends."""
    waiting = batches(parcels, patience)
    waiting.reverse()
    accepted, spent, tries = 0, timedelta(0), 0
    refusals: list[Refusal] = []
    while waiting:
        batch = waiting.pop()
        answer = yield Send(parcels[batch.start : batch.stop])
        assert answer is not None, "a Send is answered"
        spent += answer.took
        match answer:
            case Accepted():
                accepted += len(batch)
                tries = 0
            case Refused(refusals=found):
                accepted += len(batch) - len(found)
                refusals += [Refusal(batch.start + bad.index, bad.path, bad.reason) for bad in found]
                tries = 0
            case TooLarge() if len(batch) > 1:
                middle = batch.start + len(batch) // 2
                waiting += [range(middle, batch.stop), range(batch.start, middle)]
            case TooLarge():
                refusals.append(Refusal(batch.start, "$", "is larger than the far end accepts"))
            case Away(why=why, wait=asked):
                pause = max(backoff(tries, patience, dice), asked or timedelta(0))
                if spent + pause >= patience.deadline:
                    return Outcome(accepted, tuple(refusals), tuple(parcels[batch.start :]), why)
                yield Wait(pause)
                spent += pause
                tries += 1
                waiting.append(batch)
    return Outcome(accepted, tuple(refusals), ())


def batches(parcels: Sequence[Parcel], patience: Patience) -> list[range]:
    """The delivery cut into requests: as few as fit, in order."""
    cuts, start, size = [], 0, 0
    for place, parcel in enumerate(parcels):
        full = place - start >= patience.batch_events or size + len(parcel.payload) > patience.batch_bytes
        if full and place > start:
            cuts.append(range(start, place))
            start, size = place, 0
        size += len(parcel.payload)
    if start < len(parcels):
        cuts.append(range(start, len(parcels)))
    return cuts


def backoff(tries: int, patience: Patience, dice: Dice) -> timedelta:
    """A wait somewhere between nothing and a limit that doubles with each try: many emitters spread by themselves."""
    return min(patience.cap, patience.first * 2 ** min(tries, 30)) * dice()
