"""An app of Dapr's Python SDK, unchanged, with streamsched in place of its sidecar.

STREAMSCHED_DAPR_APP_ID=orders STREAMSCHED_DAPR_APP=grpc://127.0.0.1:3010 streamsched dev &
python examples/dapr_jobs/app.py
"""

import json
import os
import threading

from dapr.clients import DaprClient, Job
from dapr.ext.grpc import App, JobEvent
from google.protobuf.any_pb2 import Any

app = App()
expected = threading.Semaphore(0)


@app.job_event("remind")
def remind(event: JobEvent) -> None:
    print("remind", json.loads(event.data)["customer"], flush=True)
    expected.release()


@app.job_event("report")
def report(event: JobEvent) -> None:
    print("report", flush=True)
    expected.release()


port = int(os.environ.get("APP_PORT", "3010"))
threading.Thread(target=app.run, args=(port, "127.0.0.1"), daemon=True).start()

with DaprClient() as client:
    data = Any(value=json.dumps({"customer": 7}).encode())
    client.schedule_job(Job(name="remind", schedule="@every 1s", repeats=3, data=data), overwrite=True)
    client.schedule_job(Job(name="report", due_time="2s"), overwrite=True)
    print("scheduled", client.get_job("remind").schedule, flush=True)
    for _ in range(4):
        expected.acquire()
print("done", flush=True)
os._exit(0)  # the server of the SDK has no stop for another thread
