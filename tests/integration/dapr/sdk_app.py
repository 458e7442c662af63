"""An app of Dapr's Python SDK, unchanged: `sdk_app.py PORT JOB…`. Prints `JOB DATA` for each job that it gets. A job
named `bad…` fails until it has come three times; one named `stuck…` has no end while the variable SDK_APP_STUCK is set.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

from dapr.ext.grpc import App, JobEvent

app = App()
seen: Counter[str] = Counter()


def handle(event: JobEvent) -> None:
    seen[event.name] += 1
    print(event.name, event.get_data_as_string(), flush=True)  # noqa: T201
    if event.name.startswith("bad") and seen[event.name] < 3:
        raise RuntimeError(f"{event.name} fails")
    if event.name.startswith("stuck") and "SDK_APP_STUCK" in os.environ:
        time.sleep(600)


for name in sys.argv[2:]:
    app.job_event(name)(handle)
app.run(int(sys.argv[1]), "127.0.0.1")
