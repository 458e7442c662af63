"""The eight test scenarios of CDAP's design as its clients run them: over CDAP's addresses, in real time, beside a
running `streamsched dev`. Minutes of the design are seconds here. `tests/acceptance/test_scenarios.py` has the minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

LOAD = {"name": "load", "type": "bash", "command": "true"}
BLOCK = {"name": "block", "type": "bash", "command": "while [ ! -e $STREAMSCHED_ARG_END ]; do sleep 0.1; done"}


class Site:
    """One scheduler, and an app of each scenario in it."""

    def __init__(self, dev: DevProcess, url: str) -> None:
        self.dev = dev
        self._client = httpx.Client(base_url=url, headers=dev.authorization, timeout=60)

    def call(self, method: str, path: str, **request: Any) -> Any:
        answer = self._client.request(method, path, **request)
        assert answer.status_code in {200, 202}, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.headers.get("content-type") == "application/json" else answer.text

    def deploy(self, app: str, *schedules: Mapping[str, Any], **query: str) -> None:
        """Puts the app with its two programs over the API of apps."""
        self.call(
            "PUT", f"/v1/apps/default/{app}", json={"programs": [LOAD, BLOCK], "schedules": schedules}, params=query
        )

    def put(
        self, app: str, name: str, trigger: object, *constraints: object, program: str = "load", **more: object
    ) -> None:
        """Creates a schedule and enables it."""
        body = {"program": {"programName": program, "programType": "WORKFLOW"}, "trigger": trigger}
        at = f"/v3/namespaces/default/apps/{app}/schedules/{name}"
        self.call("PUT", at, json={**body, "constraints": constraints, **more})
        self.call("POST", f"{at}/enable")

    def update(self, app: str, name: str, **changed: Any) -> None:
        self.call("POST", f"/v3/namespaces/default/apps/{app}/schedules/{name}/update", json=changed)

    def delete(self, app: str, name: str) -> None:
        self.call("DELETE", f"/v3/namespaces/default/apps/{app}/schedules/{name}")

    def add(self, dataset: str, *numbers: int) -> None:
        """Adds partitions, each in a commit of its own; returns when every schedule that listens has judged them."""
        ids = [f"{dataset}-{number}" for number in numbers]
        for name, number in zip(ids, numbers, strict=True):
            fact = {"type": "partitions.added", "data": {"dataset": dataset, "partitions": [f"n={number}"]}}
            event = {"id": name, "source": "test", "time": datetime.now(UTC).isoformat(), **fact}
            self.call("POST", "/v1/events", json=[event])
        self.dev.until(lambda: all(self._is_judged(name) for name in ids))

    def _is_judged(self, event: str) -> bool:
        found = self.call("GET", f"/v1/events/{event}/verdicts")
        return bool(found["verdicts"]) and found["behind"] == 0

    def runs(self, app: str) -> list[dict[str, Any]]:
        """Runs of the app, oldest first."""
        found = self.call("GET", "/v1/runs", params={"app": f"default.{app}"})["runs"]
        return sorted(found, key=lambda run: run["createdAt"])

    def job_of(self, dataset: str, number: int) -> str | None:
        """The job that consumed the partition; None when its schedule has forgotten it. One schedule listens."""
        (verdict,) = self.call("GET", f"/v1/events/{dataset}-{number}/verdicts")["verdicts"]
        return verdict["job"]["id"] if "job" in verdict else None

    def completed(self, app: str, count: int) -> list[dict[str, Any]]:
        """Waits for so many completed runs; there are no others."""
        self.dev.until(lambda: sum(run["state"] == "COMPLETED" for run in self.runs(app)) >= count)
        runs = self.runs(app)
        assert len(runs) == count, runs
        return runs

    def names(self, app: str) -> list[str]:
        return [each["name"] for each in self.call("GET", f"/v3/namespaces/default/apps/{app}/schedules")]

    def jobs(self, app: str, schedule: str) -> list[str]:
        """States of the jobs, those that ended too."""
        found = self.call("GET", "/v1/jobs", params={"schedule": f"default.{app}.{schedule}"})["jobs"]
        return sorted(each["state"] for each in found)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    dev = DevProcess(tmp_path_factory.mktemp("dev"))
    said = dev.start()
    try:
        yield Site(dev, said.partition("streamsched is running: ")[2].split()[0])
    finally:
        dev.close()


def partitions(dataset: str, count: int = 1) -> dict[str, Any]:
    named = {"dataset": dataset, "namespace": "default"}
    return {"type": "PARTITION", "dataset": named, "numPartitions": count}


def delay(seconds: float) -> dict[str, Any]:
    return {"type": "DELAY", "millisAfterTrigger": int(seconds * 1000)}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_1_partitions_within_the_interval_between_runs_start_no_run(site: Site) -> None:
    site.deploy("one")
    site.put("one", "s", partitions("one"), {"type": "LAST_RUN", "millisSinceLastRun": 5000, "waitUntilMet": True})

    site.add("one", 0)
    (first,) = site.completed("one", 1)
    site.add("one", 1, 2, 3, 4)

    assert len(site.runs("one")) == 1
    site.dev.until(lambda: len(site.runs("one")) > 1)
    second = site.runs("one")[1]
    assert (moment(second["createdAt"]) - moment(first["endedAt"])).total_seconds() >= 5


def test_2_a_redeployed_schedule_runs_with_its_new_properties(site: Site) -> None:
    def schedule(mode: str) -> dict[str, Any]:
        return {"name": "s", "program": "load", "trigger": partitions("two"), "properties": {"mode": mode}}

    site.deploy("two", schedule("old"))
    site.add("two", 0)
    site.completed("two", 1)
    site.deploy("two", schedule("new"))
    site.add("two", 1)

    assert [run["arguments"]["mode"] for run in site.completed("two", 2)] == ["old", "new"]


def test_3_a_redeploy_changes_schedules_only_when_it_may(site: Site) -> None:
    def schedules(*names: str, dataset: str) -> list[dict[str, Any]]:
        return [{"name": name, "program": "load", "trigger": partitions(dataset)} for name in names]

    site.deploy("three", *schedules("a", "b", dataset="three"))
    site.deploy("three", *schedules("b", "c", dataset="other"), updateSchedules="false")
    assert site.names("three") == ["a", "b"]
    site.add("three", 0)
    assert sorted(run["schedule"] for run in site.completed("three", 2)) == ["default.three.a", "default.three.b"]

    site.deploy("three", *schedules("b", "c", dataset="three"))
    assert site.names("three") == ["b", "c"]
    site.add("three", 1)
    assert sorted(run["schedule"] for run in site.completed("three", 4)[2:]) == ["default.three.b", "default.three.c"]


def test_4_an_update_starts_counting_anew(site: Site) -> None:
    site.deploy("four")
    site.put("four", "s", partitions("four", 5), properties={"mode": "old"})
    site.add("four", 0)

    site.update("four", "s", properties={"mode": "new"})
    site.add("four", 1, 2, 3, 4)
    assert site.jobs("four", "s") == []
    site.add("four", 5)

    (run,) = site.completed("four", 1)
    assert run["arguments"]["mode"] == "new"
    assert [site.job_of("four", n) for n in range(6)] == [None] + 5 * [run["job"]]


def test_5_an_update_drops_what_waited_for_the_old_constraints(site: Site) -> None:
    site.deploy("five")
    site.put("five", "s", partitions("five", 5), delay(600), properties={"mode": "old"})
    site.add("five", 0, 1, 2, 3, 4)
    site.dev.until(lambda: site.jobs("five", "s") == ["PENDING_CONSTRAINT"])

    site.update("five", "s", trigger=partitions("five", 3), constraints=[delay(0.1)], properties={"mode": "new"})
    site.add("five", 5, 6, 7)

    (run,) = site.completed("five", 1)
    assert run["arguments"]["mode"] == "new"
    assert [site.job_of("five", n) for n in (5, 6, 7)] == 3 * [run["job"]]
    assert site.jobs("five", "s") == ["LAUNCHED", "OBSOLETE"]


def test_6_a_deleted_schedule_starts_nothing(site: Site) -> None:
    site.deploy("six")
    site.put("six", "s", partitions("six", 5))
    site.put("six", "neighbour", partitions("six", 5))
    site.add("six", 0, 1, 2, 3)

    site.delete("six", "s")
    site.add("six", 4)

    (run,) = site.completed("six", 1)
    assert run["schedule"] == "default.six.neighbour"
    assert site.jobs("six", "s") == []


def test_7_nor_does_a_job_of_it_that_waits(site: Site) -> None:
    site.deploy("seven")
    for name in ("s", "neighbour"):
        site.put("seven", name, partitions("seven", 5), delay(4))
    site.add("seven", 0, 1, 2, 3, 4)
    site.dev.until(lambda: site.jobs("seven", "s") == ["PENDING_CONSTRAINT"])

    site.delete("seven", "s")

    (run,) = site.completed("seven", 1)  # of the neighbour, whose delay has passed: that of the deleted one has too
    assert run["schedule"] == "default.seven.neighbour"
    assert site.jobs("seven", "s") == ["OBSOLETE"]


def test_8_trigger_and_all_constraints_are_needed(site: Site, tmp_path: Path) -> None:
    """Of four schedules three have one constraint that does not hold."""
    end, hour = tmp_path / "end", datetime.now(UTC).hour
    site.deploy("eight")
    site.call("POST", "/v1/programs/default.eight.block/runs", json={"arguments": {"end": str(end)}})
    site.dev.until(lambda: site.call("GET", "/v1/runs", params={"app": "default.eight", "state": "RUNNING"})["runs"])
    shut = f"{(hour + 2) % 24:02}:00", f"{(hour + 3) % 24:02}:00"
    for name, program, seconds, window in (
        ("s", "load", 1, (f"{hour:02}:00", f"{(hour + 2) % 24:02}:00")),
        ("late", "load", 600, (f"{hour:02}:00", f"{(hour + 2) % 24:02}:00")),
        ("shut", "load", 1, shut),
        ("busy", "block", 1, (f"{hour:02}:00", f"{(hour + 2) % 24:02}:00")),
    ):
        free = {"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": True}
        open_ = {"type": "TIME_RANGE", "startTime": window[0], "endTime": window[1], "timeZone": "UTC"}
        site.put(
            "eight",
            name,
            partitions("eight", 2),
            delay(seconds),
            free,
            open_,
            program=program,
            properties={"end": str(end)},
        )
    site.add("eight", 0)
    assert [site.jobs("eight", name) for name in ("s", "late", "shut", "busy")] == [[]] * 4
    site.add("eight", 1)

    site.dev.until(lambda: site.jobs("eight", "s") == ["LAUNCHED"])
    assert [site.jobs("eight", name) for name in ("late", "shut", "busy")] == [["PENDING_CONSTRAINT"]] * 3
    end.touch()
    site.dev.until(lambda: site.jobs("eight", "busy") == ["LAUNCHED"])
    assert [site.jobs("eight", name) for name in ("late", "shut")] == [["PENDING_CONSTRAINT"]] * 2
