"""The graph of Stolos' documentation, its `tasks.json` as it is, on real processes: down, up from the deepest leaf,
alternatives, failed and skipped parents, and jobs that are added again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.dev_process import DevProcess

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(900)]

#: Each run appends a line; a client named `bad` fails until there is a file `mended`.
SAY = "echo {app_name} {job_id} >> ran"
#: As documented, with a command for each task, a leaf below, a pair of alternatives, and a task with conditions.
TASKS: dict[str, Any] = {
    "preprocess": {
        "job_type": "bash",
        "job_id": "{date}_{client_id}",
        "bash_opts": SAY + "; test {client_id} != bad -o -e mended",
    },
    "otherPreprocess": {"job_type": "bash", "job_id": "{date}_{client_id}", "bash_cmd": SAY},
    "modelBuild": {
        "bash_cmd": SAY,
        "job_id": "{client_id}_{target}",
        "depends_on": {
            "dependency_group_1": [
                {
                    "app_name": ["preprocess"],
                    "target": ["purchaseRevenue", "purchaseQuantity"],
                    "date": [20140601, 20140501, 20140401],
                },
                {
                    "app_name": ["otherPreprocess"],
                    "target": ["purchaseRevenue", "purchaseQuantity"],
                    "date": [20120101, 20130101],
                },
            ],
            "dependency_group_2": {"app_name": ["preprocess"], "target": ["numberOfPageviews"], "date": [20140615]},
        },
    },
    "publish": {"bash_cmd": SAY, "job_id": "{client_id}_{target}", "depends_on": {"app_name": ["modelBuild"]}},
    "either": {
        "bash_cmd": SAY,
        "job_id": "{client_id}",
        "depends_on": {
            "left": {"app_name": ["preprocess"], "date": [20150101]},
            "right": {"app_name": ["otherPreprocess"], "date": [20150102]},
        },
    },
    "chosen": {"bash_cmd": SAY, "job_id": "{client_id}", "valid_if_or": {"client_id": ["client1"]}},
    "afterChosen": {"bash_cmd": SAY, "job_id": "{client_id}", "depends_on": {"app_name": ["chosen"]}},
}


class Site:
    """A server with the tasks, and what ran in its folder."""

    def __init__(self, dev: DevProcess) -> None:
        self.dev = dev

    def graph(self, *given: str, code: int = 0) -> str:
        done = self.dev.run("graph", *given, within=300)
        assert done.code == code, done
        return done.out

    def ran(self) -> Counter[str]:
        path = self.dev.folder / "ran"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def states(self) -> dict[tuple[str, str], str]:
        nodes = json.loads(self.graph("show", "stolos", "-n", "1000", "-o", "json"))
        return {(each["task"], each["jobId"]): each["state"] for each in nodes}

    def until(self, **expected: str) -> None:
        """Waits until `task__job_id` have these states."""
        wanted = {tuple(name.split("__")): state for name, state in expected.items()}
        deadline = time.monotonic() + 240
        while any(self.states().get(node) != state for node, state in wanted.items()):  # type: ignore[call-overload]
            assert time.monotonic() < deadline, (wanted, self.states())
            time.sleep(1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("stolos")
    (folder / "tasks.json").write_text(json.dumps(TASKS))
    dev = DevProcess(folder)
    dev.start()
    try:
        imported = dev.run("import", "stolos", "tasks.json", "--max-retry", "2")
        assert imported.code == 0, imported
        yield Site(dev)
    finally:
        dev.close()


def test_up_from_the_deepest_leaf(site: Site) -> None:
    site.graph("submit", "stolos.publish", "-j", "client1_purchaseRevenue", "--wait")

    lines = (site.dev.folder / "ran").read_text().splitlines()
    # what the parents complete on the way down, besides: purchaseQuantity has the same ones
    mine = [line for line in lines if "client1" in line and "purchaseQuantity" not in line and "hosen" not in line]
    assert mine[-2:] == ["modelBuild client1_purchaseRevenue", "publish client1_purchaseRevenue"]
    assert sorted(mine[:-2]) == [
        "otherPreprocess 20120101_client1",
        "otherPreprocess 20130101_client1",
        "preprocess 20140401_client1",
        "preprocess 20140501_client1",
        "preprocess 20140601_client1",
    ]


@pytest.mark.nightly
def test_down_from_a_root(site: Site) -> None:
    site.graph("submit", "stolos.preprocess", "-j", "20140615_client2")
    site.until(publish__client2_numberOfPageviews="COMPLETED")
    ran = {line: number for line, number in site.ran().items() if "client2" in line}
    assert ran == {
        "preprocess 20140615_client2": 1,
        "modelBuild client2_numberOfPageviews": 1,
        "publish client2_numberOfPageviews": 1,
    }


def test_either_side_of_an_alternative_is_enough(site: Site) -> None:
    site.graph("submit", "stolos.preprocess", "-j", "20150101_leftist")
    site.graph("submit", "stolos.otherPreprocess", "-j", "20150102_rightist")
    site.until(either__leftist="COMPLETED", either__rightist="COMPLETED")
    assert site.ran()["either leftist"] == site.ran()["either rightist"] == 1
    assert "or right: 1 of 1 parents are missing" in site.graph("why", "stolos.either", "leftist")


def test_failed_and_skipped_parents_are_seen_in_their_children_and_added_again(site: Site) -> None:
    site.graph("submit", "stolos.publish", "-j", "bad_numberOfPageviews", "--wait", code=1)
    states = site.states()
    assert states["preprocess", "20140615_bad"] == "FAILED"
    assert states["modelBuild", "bad_numberOfPageviews"] == "UPSTREAM_FAILED"
    assert states["publish", "bad_numberOfPageviews"] == "UPSTREAM_FAILED"
    assert site.ran()["preprocess 20140615_bad"] == 2  # max_retry counts runs

    site.graph("submit", "stolos.afterChosen", "-j", "client9", "--wait", code=1)
    assert site.states()["chosen", "client9"] == "SKIPPED"
    assert site.states()["afterChosen", "client9"] == "UPSTREAM_SKIPPED"
    site.graph("submit", "stolos.afterChosen", "-j", "client1", "--wait")

    (site.dev.folder / "mended").touch()
    site.graph("submit", "stolos.publish", "-j", "bad_numberOfPageviews", "--readd", "--wait")
    assert site.ran()["preprocess 20140615_bad"] == 3
    assert site.ran()["publish bad_numberOfPageviews"] == 1


def test_what_has_run_runs_again_with_what_depends_on_it(site: Site) -> None:
    site.graph("submit", "stolos.preprocess", "-j", "20140615_client3")
    site.until(publish__client3_numberOfPageviews="COMPLETED")
    site.graph("rerun", "stolos.preprocess", "20140615_client3", "--downstream", "--wait")
    deadline = time.monotonic() + 240
    while site.ran()["publish client3_numberOfPageviews"] < 2:
        assert time.monotonic() < deadline, site.states()
        time.sleep(1)
    assert {number for line, number in site.ran().items() if "client3" in line} == {2}
