"""`streamsched top` while log or database are unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, RenderableType

from streamsched.cli.overview import frames
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


async def test_the_last_overview_is_shown_while_log_or_database_are_unavailable() -> None:
    results: Iterator[dict[str, Any] | UnavailableError] = iter(
        [
            UnavailableError("PostgreSQL is unavailable"),
            {"shards": [SHARD], "queues": []},
            UnavailableError("Kafka [1] is unavailable"),
            {"shards": [], "queues": []},
        ]
    )

    async def read() -> dict[str, Any]:
        result = next(results)
        if isinstance(result, UnavailableError):
            raise result
        return result

    shown = frames(read)
    before, first, during, after = [text(await anext(shown)) for _ in range(4)]
    await shown.aclose()  # type: ignore[attr-defined]

    assert "PostgreSQL is unavailable" in before
    assert "unowned for 12 s" in first
    assert "Kafka [1] is unavailable" in during
    assert "unowned for 12 s" in during
    assert "unowned" not in after
