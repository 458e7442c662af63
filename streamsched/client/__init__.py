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
