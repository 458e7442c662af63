"""A client of the API: schedules, jobs, runs, backfills and events, blocking or with `await`.

    with Client("http://127.0.0.1:8765") as client:
        for schedule in client.schedules(namespace="sales"):
            print(schedule.id, schedule.state)
        job = client.run_schedule("sales.nightly", arguments={"mode": "quick"}, reason="ann: late files")
        print(client.why(job.id).summary)

`Client` and `AsyncClient` have the same methods. Errors are those of `streamsched.domain.errors`, as the rest of the
product raises them. Requests that can be repeated are: those that only read, those that say what shall be, and those
with an `Idempotency-Key`, which the client makes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamsched.client.asynchronous import AsyncClient
    from streamsched.client.blocking import Client
    from streamsched.wire.backfills import Backfill
    from streamsched.wire.decisions import Decision
    from streamsched.wire.events import AcceptedEvents
    from streamsched.wire.jobs import Job, JobReason, MadeJob
    from streamsched.wire.runs import Run
    from streamsched.wire.schedules import DeployedSchedule, SuspendedSchedule
    from streamsched.wire.webhook_state import WebhookState

__all__ = [
    "AcceptedEvents",
    "AsyncClient",
    "Backfill",
    "Client",
    "Decision",
    "DeployedSchedule",
    "Job",
    "JobReason",
    "MadeJob",
    "Run",
    "SuspendedSchedule",
    "WebhookState",
]

#: Name → its module.
_LAZY: Final = {
    "AcceptedEvents": "streamsched.wire.events",
    "AsyncClient": "streamsched.client.asynchronous",
    "Backfill": "streamsched.wire.backfills",
    "Client": "streamsched.client.blocking",
    "Decision": "streamsched.wire.decisions",
    "DeployedSchedule": "streamsched.wire.schedules",
    "Job": "streamsched.wire.jobs",
    "JobReason": "streamsched.wire.jobs",
    "MadeJob": "streamsched.wire.jobs",
    "Run": "streamsched.wire.runs",
    "SuspendedSchedule": "streamsched.wire.schedules",
    "WebhookState": "streamsched.wire.webhook_state",
}


def __getattr__(name: str) -> Any:
    """Imports a name of the package when it is first used: `Client` needs no httpx, and the command line none of these.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found
