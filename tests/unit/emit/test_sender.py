"""The background thread of an emitter keeps its pauses, however much is spooled meanwhile."""

from __future__ import annotations

import threading

from streamsched.emit.sender import Sender

HOUR = 3600.0


def test_a_flush_that_is_scheduled_is_not_made_earlier() -> None:
    """Each event that is spooled asks for one, after a random pause: the shortest of many would be none."""
    flushes: list[None] = []
    sender = Sender(lambda: flushes.append(None))
    sender.flush_in(HOUR)
    for _ in range(100):
        sender.flush_in(0)
        sender.submit(lambda: None).result(10)

    assert flushes == []
    assert sender.cancel_flush()


def test_the_pause_of_a_flush_is_kept_when_more_is_spooled_during_it() -> None:
    began, go = threading.Event(), threading.Event()
    flushes: list[None] = []

    def flush() -> float:
        flushes.append(None)
        began.set()
        go.wait(10)
        return HOUR

    sender = Sender(flush)
    sender.flush_in(0)
    assert began.wait(10)
    sender.flush_in(0)
    go.set()
    for _ in range(100):
        sender.submit(lambda: None).result(10)

    assert len(flushes) == 1
    assert sender.cancel_flush()
