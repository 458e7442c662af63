"""What the lines of the stream mean to the clients, and when they connect again."""

from __future__ import annotations

import pytest

from streamsched.client.following import Following
from streamsched.domain.errors import ForbiddenError, UnauthenticatedError, UnavailableError
from streamsched.process.http_connection import HttpResponse

DECISION = (
    '{"number": 7, "at": "2026-03-01T12:00:00Z", "kind": "job", "subject": "a.b.c.1.1", "action": "job.waits", '
    '"state": null, "reason": "why", "schedule": "a.b.c", "program": null, "job": "a.b.c.1.1", "attempt": null}'
)


def test_a_decision_ends_with_an_empty_line_and_moves_the_position() -> None:
    following = Following("a", None, None)
    lines = [
        ": alive",
        "",
        "id: 3",
        "event: open",
        "data: {}",
        "",
        "id: 7",
        "event: job.waits",
        f"data: {DECISION}",
        "",
    ]
    found = [each for line in lines if (each := following.line(line)) is not None]

    assert [(each.number, each.subject, each.reason) for each in found] == [(7, "a.b.c.1.1", "why")]
    assert following.headers == {"Last-Event-ID": "7"}
    assert following.params == [("namespace", "a")]


def test_a_sign_of_life_moves_the_position() -> None:
    following = Following(None, None, 3)
    assert [following.line(line) for line in (": alive", "id: 90", "")] == [None] * 3
    assert following.after == 90


def test_a_stream_that_is_ended_is_an_error() -> None:
    following = Following(None, None, 3)
    following.line("event: end")
    following.line('data: {"reason": "revoked"}')
    with pytest.raises(UnauthenticatedError, match="revoked"):
        following.line("")


def test_connections_that_open_are_made_again_without_end_and_others_are_not() -> None:
    following, cut = Following(None, None, 3), HttpResponse(0, failure="cut")
    for _ in range(10):
        assert following.pause(cut, (0.1, 0.2), "http://x") == 0.1
        for line in ("id: 3", "event: open", "data: {}", ""):
            following.line(line)
    assert [following.pause(cut, (0.1, 0.2), "http://x") for _ in range(2)] == [0.1, 0.2]
    with pytest.raises(UnavailableError):
        following.pause(cut, (0.1, 0.2), "http://x")
    with pytest.raises(ForbiddenError):
        Following(None, None, 3).pause(HttpResponse(403, b'{"type": "x", "detail": "no"}'), (0.1,), "http://x")


def test_half_an_event_of_a_cut_connection_is_forgotten() -> None:
    following = Following(None, None, 3)
    following.line("event: job.waits")
    following.line("data: {")
    following.pause(HttpResponse(0), (0.1,), "http://x")
    assert following.line("") is None
