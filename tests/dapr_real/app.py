"""An app of Dapr's Python SDK, unchanged: `python -m tests.dapr_real.app PORT FILE PREFIX=COUNT…`.

It has handlers for the jobs `PREFIX0` to `PREFIXn` and `STRANGE`, and writes a line for each job that arrives: its time
(Unix seconds) and its name. Each job `fails…` fails until it has come three times.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final, TextIO

from dapr.ext.grpc import App, JobEvent

#: Names that other names of jobs don't look like; the app has handlers for them too.
STRANGE: Final = ("with space", "ünïcode-名-🎉", "a:b_c", "..dots..", "%2F%00", "'; DROP TABLE tasks; --", "x" * 512)


class Recorder:
    """Writes down arrivals; what was written survives the process."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._times: Counter[str] = Counter()

    def __call__(self, event: JobEvent) -> None:
        self._file.write(f"{time.time():.6f} {event.name}\n")
        self._file.flush()
        self._times[event.name] += 1
        if event.name.startswith("fails") and self._times[event.name] < 3:
            raise RuntimeError(f"{event.name} fails")


def main() -> None:
    port, path, *counts = sys.argv[1:]
    app = App()
    with Path(path).open("a") as file:
        recorder = Recorder(file)
        for each in counts:
            prefix, _, count = each.partition("=")
            for number in range(int(count)):
                app.job_event(f"{prefix}{number}")(recorder)
        for name in STRANGE:
            app.job_event(name)(recorder)
        app.run(int(port), "127.0.0.1")


if __name__ == "__main__":
    main()
