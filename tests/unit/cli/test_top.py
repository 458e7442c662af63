"""`streamsched top` goes on while it cannot see, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, RenderableType

from streamsched.cli.top import frames
from streamsched.domain.errors import UnavailableError

SHARD = {
    "shard": 7,
    "worker": None,
    "state": "unowned",
    "epoch": None,
    "sinceSeconds": 12.0,
    "behind": 3,
    "doing": None,
    "turnsPerSecond": None,
    "eventsPerSecond": None,
    "chunk": None,
    "recoverySeconds": None,
    "rows": None,
    "inError": None,
}


def text(frame: RenderableType) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(frame)
    return captured.get()


async def test_while_the_far_end_is_away_it_shows_how_it_was() -> None:
    looks: Iterator[dict[str, Any] | UnavailableError] = iter(
        [
            UnavailableError("PostgreSQL does not answer"),
            {"shards": [SHARD], "queues": []},
            UnavailableError("Kafka [1] does not answer"),
            {"shards": [], "queues": []},
        ]
    )

    async def look() -> dict[str, Any]:
        found = next(looks)
        if isinstance(found, UnavailableError):
            raise found
        return found

    shown = frames(look)
    blind, seen, away, again = [text(await anext(shown)) for _ in range(4)]
    await shown.aclose()  # type: ignore[attr-defined]

    assert "PostgreSQL does not answer" in blind
    assert "unowned for 12 s" in seen
    assert "Kafka [1] does not answer" in away
    assert "unowned for 12 s" in away
    assert "unowned" not in again
