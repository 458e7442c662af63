"""One emitter as a process: `python -m tests.faults.processes.emitter_process URL SPOOL`.

Each line that comes is a number and events as native JSON; the number is answered when all of them are with the far end
or in the spool. What it has not answered when it dies is said again to the next one, so some events come twice.
"""

from __future__ import annotations

import logging
import select
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from streamsched.codec import event as event_codec
from streamsched.domain.errors import UnavailableError
from streamsched.emit import Emitter
from streamsched.emit.delivery import RetryLimits

#: Short, so that the spool is used whenever the far end is away.
_PATIENCE = RetryLimits(deadline=timedelta(seconds=1), cap=timedelta(milliseconds=500))


def main(url: str, spool: Path) -> None:
    with Emitter(url, source="faults", spool=spool, patience=_PATIENCE) as emitter:
        while True:
            if not select.select([sys.stdin.fileno()], [], [], 0.3)[0]:
                with suppress(UnavailableError):  # asked again
                    emitter.drain()
                continue
            line = sys.stdin.buffer.raw.readline()  # type: ignore[attr-defined]
            if not line:
                return
            said = orjson.loads(line)
            now = datetime.now(UTC)
            emitter.emit(
                *(event_codec.decode(orjson.dumps(each), fallback_id="", fallback_time=now) for each in said["events"])
            )
            sys.stdout.write(f"{said['number']}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(sys.argv[1], Path(sys.argv[2]))
