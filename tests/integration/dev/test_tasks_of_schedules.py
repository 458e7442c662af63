"""From an event to a task, to a worker in another process, to the event of its end, to a run; and from PagerDuty's
topic to a worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.dialects.pagerduty.client import Scheduler, Task
from streamsched.domain.errors import NotFoundError
from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.long]

APP = """
from streamsched import App, event

app = App("shop")
mail = app.enqueue("mail", "mail", lane="{key.customer}", data={"customer": "{key.customer}"})
report = app.bash("report", "echo $STREAMSCHED_ARG_KEY_CUSTOMER")
app.schedule("paid", mail, when=event("paid").per("customer"))
app.schedule("next", report, when=event("mailed", match={"state": "SUCCEEDED"}).per("customer"))
"""
WORKER = """
from streamsched.tasks.worker import TaskWorker
worker = TaskWorker()
@worker.task("QUEUE")
def send(task):
    with open("sent", "a") as file:
        file.write(task.lane + " " + task.json()["customer"] + "\\n")
worker.run()
"""


@contextmanager
def working(dev: DevProcess, queue: str) -> Iterator[None]:
    """A worker of the queue in a process of its own, which is stopped in the end."""
    (dev.folder / "worker.py").write_text(WORKER.replace("QUEUE", queue))
    worker = subprocess.Popen([sys.executable, "worker.py"], cwd=dev.folder, env={**os.environ, **dev.environ()})
    try:
        yield
    finally:
        worker.terminate()
        code = worker.wait(timeout=40)
    assert code == 0, "a worker that is stopped ends in order"


def sent(dev: DevProcess) -> list[str]:
    file = dev.folder / "sent"
    return file.read_text().splitlines() if file.exists() else []


def test_a_task_behind_a_trigger_and_a_run_behind_its_end(dev: DevProcess) -> None:
    (dev.folder / "app.py").write_text(APP)
    dev.start()
    made = dev.run("queue", "set", "mail", "--worker", "--timeout", "20s", "--ends", "mailed")
    assert made.code == 0, made.err
    assert dev.run("deploy", "app.py").code == 0
    with working(dev, "mail"):
        for customer in ("7", "8"):
            assert dev.run("event", "emit", "custom", "paid", f"customer={customer}").code == 0
        reports = ("run", "list", "--program", "shop.report", "-o", "json")
        dev.until(lambda: [each["state"] for each in dev.run(*reports).json] == ["COMPLETED"] * 2)

    assert sorted(sent(dev)) == ["7 7", "8 8"]


def test_a_task_of_pagerdutys_topic_goes_to_a_worker_in_the_order_of_keys(dev: DevProcess) -> None:
    dev.start(STREAMSCHED_TASK_TOPICS="scheduler")
    log = json.loads((dev.state / "dev.json").read_text())["settings"]["broker_url"]
    due = datetime.now(UTC) + timedelta(seconds=2)
    with Scheduler(log) as scheduler:

        def stored() -> bool:
            """False until the launcher has created the topic."""
            tasks = [
                Task("incident", due + timedelta(milliseconds=n), f"k{n}", {"customer": str(n)}) for n in (3, 1, 2)
            ]
            futures = [scheduler.schedule_task(task) for task in tasks]
            return not any(isinstance(each.exception(20), NotFoundError) for each in futures)

        dev.until(stored)
    with working(dev, "scheduler"):
        dev.until(lambda: len(sent(dev)) >= 3)

    assert sent(dev) == ["incident 1", "incident 2", "incident 3"]
