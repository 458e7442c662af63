"""An emitter on another machine: `python -m tests.faults.processes.sender_process LOG`.

Each line that comes is a list of [topic, partition, value]. It appends them, again and again while the log is away, and
says how many lines it has done. It ends with its input.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import orjson
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker, Outgoing
from streamsched.process.supervision import wait_until_available


async def main(log: str) -> None:
    broker = await wait_until_available("log", lambda: open_broker(log))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    reading = asyncio.create_task(_read(lines, waiting))
    done = 0
    while batch := await _next(waiting):
        said = [record for line in batch for record in orjson.loads(line)]
        await _appended(broker, [Outgoing(topic, place, None, value.encode()) for topic, place, value in said])
        for _ in batch:
            done += 1
            sys.stdout.write(f"{done}\n")
        sys.stdout.flush()
    await reading
    await broker.close()


async def _read(lines: asyncio.StreamReader, waiting: asyncio.Queue[bytes]) -> None:
    while line := await lines.readline():
        waiting.put_nowait(line)
    waiting.put_nowait(b"")


async def _next(waiting: asyncio.Queue[bytes]) -> list[bytes]:
    """All lines that wait; none when the input has ended."""
    batch = [await waiting.get()]
    while not waiting.empty() and batch[-1] and len(batch) < 100:
        batch.append(waiting.get_nowait())
    if len(batch) > 1 and not batch[-1]:
        waiting.put_nowait(batch.pop())
    return [line for line in batch if line]


async def _appended(broker: Broker, records: list[Outgoing]) -> None:
    while True:
        try:
            return await broker.append(records)
        except UnavailableError:
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(main(sys.argv[1]))
