"""Jobs of one app on several launchers that come and go: each is delivered, none early."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from tests.integration.dapr.apps import HttpApp
from tests.integration.dapr.conftest import DaprInstallation


async def test_launchers_come_and_go_and_no_job_is_lost(installation: DaprInstallation) -> None:
    app, arrived = HttpApp(), dict[str, datetime]()

    def answer(name: str, _: int) -> int:
        arrived.setdefault(name, datetime.now(UTC))
        return 200

    app.answer = answer
    due: dict[str, datetime] = {}
    async with app.running() as address, AsyncExitStack() as stack:
        client = await stack.enter_async_context(installation.endpoint(dapr_app=address))
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(installation.launcher())
        began = datetime.now(UTC)
        for number in range(150):
            at = began + timedelta(milliseconds=40 * number)
            due[f"j{number}"] = at
            body = {"dueTime": at.isoformat().replace("+00:00", "Z"), "data": number}
            assert (await client.post(f"/v1.0/jobs/j{number}", json=body)).status_code == 204
        for _ in range(2):
            await stack.enter_async_context(installation.launcher())
        await first.aclose()
        async with asyncio.timeout(60):
            while len(arrived) < len(due):  # noqa: ASYNC110 - any launcher may deliver
                await asyncio.sleep(0.05)

    early = {name: at for name, at in arrived.items() if at < due[name] - timedelta(milliseconds=5)}
    assert (set(arrived), early) == (set(due), {})
