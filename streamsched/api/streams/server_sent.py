"""Server-sent events as bytes (`text/event-stream`)."""

from __future__ import annotations

from typing import Final

MEDIA: Final = "text/event-stream"
#: Proxies neither keep nor collect them.
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def server_event(name: str, data: str, *, event_id: int | None = None, retry_ms: int | None = None) -> bytes:
    """One event. `data` is one line; `event_id` is what a client sends as `Last-Event-ID` when it comes back;
    `retry_ms`: how long it waits before that.
    """
    lines = [f"event: {name}", f"data: {data}"]
    if event_id is not None:
        lines.insert(0, f"id: {event_id}")
    if retry_ms is not None:
        lines.insert(0, f"retry: {retry_ms}")
    return ("\n".join(lines) + "\n\n").encode()


def alive(event_id: int | None = None) -> bytes:
    """A comment, which shows that the server lives. With an id: also how far the client is, without an event."""
    return b": alive\n\n" if event_id is None else f": alive\nid: {event_id}\n\n".encode()
