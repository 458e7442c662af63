"""The receiver of the page `receive-webhooks.md` accepts what is sent, and nothing else."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.webhooks.signature import secret_text
from tests.integration.webhooks.webhook_world import SECRET, WebhookWorld

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "receive-webhooks.md"


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """URL of the receiver, which runs in a thread."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    names: dict[str, Any] = {"__name__": "receiver"}
    exec(compile(code, str(PAGE), "exec"), names)
    server = HTTPServer(("127.0.0.1", 0), names["Receiver"])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    await asyncio.to_thread(server.shutdown)
    await asyncio.to_thread(thread.join)
    server.server_close()


async def test_the_receiver_of_the_page_verifies(
    world: WebhookWorld, receiver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "default.flights.weekly.1.7.r1"
    world.clock.set(datetime.now(UTC))
    async with world.owning() as owner:
        await world.webhook(receiver)
        await world.write((run, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        accepted = await world.store.get("default.hook")
        await world.pool.execute("UPDATE webhooks SET secret = $1", secret_text(b"other" * 6))
        await world.write((run, "run.failed"))
        await world.feeding().run_once()
        world.pass_time(seconds=2)
        await world.settle(owner)
        refused = await world.store.get("default.hook")
    assert (accepted.queued, accepted.error) == (0, "")
    assert refused.error.startswith("HTTP 401")
    assert f"streamsched.run.failed {run} why" in capsys.readouterr().out
