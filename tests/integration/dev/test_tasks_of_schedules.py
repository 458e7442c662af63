"""From an event to a task, to a worker in another process, to the event of its end, to a run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
@worker.task("mail")
def send(task):
    with open("sent", "a") as file:
        file.write(task.lane + " " + task.json()["customer"] + "\\n")
worker.run()
"""


def test_a_task_behind_a_trigger_and_a_run_behind_its_end(dev: DevProcess) -> None:
    (dev.folder / "app.py").write_text(APP)
    (dev.folder / "worker.py").write_text(WORKER)
    dev.start()
    made = dev.run("queue", "set", "mail", "--worker", "--timeout", "20s", "--ends", "mailed")
    assert made.code == 0, made.err
    assert dev.run("deploy", "app.py").code == 0
    worker = subprocess.Popen([sys.executable, "worker.py"], cwd=dev.folder, env={**os.environ, **dev.environ()})
    try:
        for customer in ("7", "8"):
            assert dev.run("event", "emit", "custom", "paid", f"customer={customer}").code == 0
        reports = ("run", "list", "--program", "shop.report", "-o", "json")
        dev.until(lambda: [each["state"] for each in dev.run(*reports).json] == ["COMPLETED"] * 2)
    finally:
        worker.terminate()
        code = worker.wait(timeout=40)

    assert code == 0, "a worker that is stopped ends in order"
    assert sorted((dev.folder / "sent").read_text().splitlines()) == ["7 7", "8 8"]
