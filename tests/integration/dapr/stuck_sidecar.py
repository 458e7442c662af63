"""A sidecar that answers nothing: `python -m tests.integration.dapr.stuck_sidecar ADDRESS`. Prints each job it gets."""

from __future__ import annotations

import asyncio
import sys

import grpc

from tests.integration.dapr.sidecar import Sidecar


async def main(address: str) -> None:
    """Runs until it is killed."""
    async with grpc.aio.insecure_channel(address) as channel:
        stream = await Sidecar(channel).watch()
        while True:
            print((await stream.read()).name, flush=True)  # noqa: T201


asyncio.run(main(sys.argv[1]))
