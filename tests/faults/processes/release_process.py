"""One worker of this release or of the next, whose states have another encoding.

python -m tests.faults.processes.release_process this|next DATABASE LOG NAME LEASE_SECONDS
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta
from typing import Any

import orjson
import structlog
import uvloop

from streamsched.codec.records import formats
from streamsched.codec.records import state as codec
from streamsched.log.drivers import open_broker
from streamsched.ports.leases import LeaseHolder
from streamsched.store.connections import open_pool
from streamsched.store.server.leases import PostgresLeases
from streamsched.stream.shards.worker import Worker

NEXT = formats.NEWEST + 1
STATES = codec.VERSION + 1


def upgrade() -> None:
    """The codec of the release to come: the old document in an envelope, which the old one cannot read."""
    olds: dict[str, Any] = {name: getattr(codec, name) for name in ("encode", "encode_key", "decode", "decode_key")}

    def newer(name: str) -> Any:
        def encode(*said: Any, version: int, **named: Any) -> bytes:
            raw = olds[name](*said, version=STATES - 1, **named)
            return raw if version < STATES else orjson.dumps({"v": STATES, "was": orjson.Fragment(raw)})

        return encode

    def reading(name: str) -> Any:
        def decode(raw: bytes, *said: Any, **named: Any) -> Any:
            found = orjson.loads(raw)
            return olds[name](orjson.dumps(found["was"]) if found["v"] == STATES else raw, *said, **named)

        return decode

    all_formats: Any = formats
    all_formats.NEWEST, all_formats.WRITTEN = NEXT, (*formats.WRITTEN, NEXT)
    all_formats.STATES = {**formats.STATES, NEXT: STATES}
    patched: Any = codec
    patched.WRITTEN = (STATES - 1, STATES)
    patched.encode, patched.encode_key = newer("encode"), newer("encode_key")
    patched.decode, patched.decode_key = reading("decode"), reading("decode_key")


async def main(release: str, database: str, log: str, name: str, lease_s: str) -> None:
    if release == "next":
        upgrade()
    pool, broker = await open_pool(database), await open_broker(log)
    identity = LeaseHolder(name, "localhost", os.getpid(), NEXT if release == "next" else NEXT - 1)
    worker = Worker(broker, PostgresLeases(pool), identity, ttl=timedelta(seconds=float(lease_s)))
    running = asyncio.create_task(worker.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait((running,))
    await broker.close()
    await pool.close()


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(main(*sys.argv[1:]))
