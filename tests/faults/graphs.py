"""Graphs while everything is killed again and again: each node's work once for each time it was asked for.

SIGKILL meets the whole of `streamsched dev`, PostgreSQL, and every second time the runs too. Two graphs: that of the
Stolos documentation for one client after another, and a random one for one day after another, whose first task waits
for the day's partition. In the last quarter some nodes run again, at the end while what depends on them runs.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.faults.judges.graphs import Edges, Work, judge_graph
from tests.faults.sites.dev_site import DevSite
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial, settle

APP = """
from streamsched import App, retry

app = App("{name}")
note = app.bash("note", '''
mine="$STREAMSCHED_ARG_TASK $STREAMSCHED_ARG_JOB_ID $STREAMSCHED_RUN_ID"
echo "began $mine" >> {ran}; sleep 0.1; echo "done $mine" >> {ran}
''')
for name, task in {tasks}.items():
    app.task(name, note, **task, overlap="queue", retry=retry(50, on=("lost", "crash", "error"), delay="1s"))
"""
_BUILD = {"task": ["preprocess"], "target": ["purchaseRevenue", "purchaseQuantity"]}
#: That of the Stolos documentation, and the edges that it describes there in words.
SEED: dict[str, Any] = {
    "preprocess": {"job_id": "{date}_{client_id}"},
    "otherPreprocess": {"job_id": "{date}_{client_id}"},
    "modelBuild": {
        "job_id": "{client_id}_{target}",
        "depends_on": {
            "dependency_group_1": [
                {**_BUILD, "date": [20140601, 20140501, 20140401]},
                {**_BUILD, "task": ["otherPreprocess"], "date": [20120101, 20130101]},
            ],
            "dependency_group_2": {"task": ["preprocess"], "target": ["numberOfPageviews"], "date": [20140615]},
        },
    },
}
_LETTERS = ("a", "b")


def seed_edges(client: str) -> Edges:
    """The parents of all job ids of one client."""
    roots = [f"preprocess {day}_{client}" for day in (20140601, 20140501, 20140401, 20140615)]
    others = [f"otherPreprocess {day}_{client}" for day in (20120101, 20130101)]
    edges: Edges = {root: [] for root in (*roots, *others)}
    for target in ("purchaseRevenue", "purchaseQuantity"):
        edges[f"modelBuild {client}_{target}"] = [[*roots[:3], *others]]
    edges[f"modelBuild {client}_numberOfPageviews"] = [[roots[3]]]
    return edges


class RandomGraph:
    """Five tasks over a day, some for each of two letters; tasks need one or two former ones, or either of two."""

    def __init__(self, rng: random.Random) -> None:
        self._wide = {f"t{n}": rng.random() < 0.5 for n in range(5)}
        self._groups: dict[str, list[list[str]]] = {}
        for n, name in enumerate(self._wide):
            groups = rng.choice((1, 1, 2)) if n else 0
            self._groups[name] = [
                [f"t{one}" for one in rng.sample(range(n), min(n, rng.choice((1, 2))))] for _ in range(groups)
            ]

    @property
    def tasks(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, wide in self._wide.items():
            task: dict[str, Any] = {"job_id": "{day}_{letter}" if wide else "{day}"}
            if wide:
                task["autofill_values"] = {"letter": list(_LETTERS)}
            if self._groups[name]:
                task["depends_on"] = {
                    f"g{n}": [
                        {"task": [parent], **({"letter": list(_LETTERS)} if self._wide[parent] and not wide else {})}
                        for parent in group
                    ]
                    for n, group in enumerate(self._groups[name])
                }
            if name == "t0":
                task["depends_on"] = {"partitions": {"dataset": "days", "by": ["day"]}}
            made[name] = task
        return made

    def roots(self, day: int) -> list[str]:
        """What the partition of the day runs."""
        return [f"t0 {day}_{letter}" for letter in _LETTERS] if self._wide["t0"] else [f"t0 {day}"]

    def edges(self, day: int) -> Edges:
        """The parents of all job ids of one day."""
        return {
            f"{name} {day}{letter}": [
                [f"{p} {day}{of}" for p in group for of in self._parents(p, letter)] for group in self._groups[name]
            ]
            for name, wide in self._wide.items()
            for letter in (["_a", "_b"] if wide else [""])
        }

    def _parents(self, parent: str, letter: str) -> list[str]:
        if not self._wide[parent]:
            return [""]
        return [letter] if letter else [f"_{each}" for each in _LETTERS]


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    yield Site(lambda _: GraphTrial(asked))


class GraphTrial(Trial):
    """One installation, what was asked of it, and the kills."""

    patience_s = 300.0

    def __init__(self, asked: Asked) -> None:
        self.rng, self._kills = random.Random(asked.seed), asked.n
        self.dev = DevSite(asked.folder)
        self.ran = asked.folder / "ran"
        self.graph = RandomGraph(self.rng)
        self.work = {"seed": Work(), "random": Work()}

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        with self.dev:
            for name, tasks in (("seed", SEED), ("random", self.graph.tasks)):
                self.dev.deploy(APP.format(name=name, ran=self.ran, tasks=repr(tasks)))
            yield

    async def faults(self) -> AsyncIterator[str]:
        """The kills. Each of the first meets a client or a day, each of the last nodes that run again."""
        first, apart = self._kills - self._kills // 4, self._kills - self._kills // 4 + self._kills // 8
        asking: list[threading.Thread] = []
        for number in range(1, self._kills + 1):
            if number in range(first + 1, apart + 2) and not (await settle(self)).clean:
                yield "not well before anything runs again"
                return
            if number > first:
                self.run_again(overlapping=number > apart)
            else:
                asking.append(threading.Thread(target=self.ask_for, args=(number,)))
                asking[-1].start()
                await asyncio.sleep(self.rng.uniform(0.5, 4.0))
            await asyncio.sleep(self.rng.uniform(0.0, 2.0))
            with_runs = number % 2 == 0
            self.dev.kill(runs=with_runs)
            yield "killed, runs too" if with_runs else "killed"
            if number <= first:
                asking[-1].join()

    async def judge(self) -> Judgement:
        """The verdict on what has happened so far."""
        found = Judgement()
        runs = self.dev.runs()
        for app, work in self.work.items():
            nodes = self._ask(f"/v1/graphs/default/{app}/nodes?limit=1000")["nodes"]
            states = {f"{each['task']} {each['jobId']}": each["state"] for each in nodes}
            mine = {each["id"]: each["state"] for each in runs if each["id"].startswith(f"default.{app}.")}
            mine = {run: state for run, state in mine.items() if ".node-" in run}
            judge_graph(work, states, mine, self._lines(app), found)
        return found

    def counts(self) -> Counts:
        nodes = sum(len(work.wanted) for work in self.work.values())
        return {"kills": self.dev.killed, "nodes": nodes, "runs": len(self._lines()) // 2}

    def submit(self, app: str, node: str, *, again: bool = False, overlapping: bool = False) -> None:
        """Until it is accepted; `again` only once. `overlapping`: again, while others may run."""
        again |= overlapping
        noted = len(self._lines(app)) if overlapping else 0
        task, _, job_id = node.partition(" ")
        body = {"task": task, "jobIds": [job_id], **({"again": True} if again else {})}
        while True:
            try:
                self._ask(f"/v1/graphs/default/{app}/submit", body)
                break
            except (OSError, urllib.error.URLError):
                if again:
                    raise
                time.sleep(0.2)
        if overlapping:
            self.work[app].overlapping.append((node, noted))
        else:
            (self.work[app].again if again else self.work[app].asked).append(node)

    def arrive(self, day: int) -> None:
        """The partition of the day is there; emitted until it is accepted."""
        body = {
            "id": f"day-{day}",
            "source": "trial",
            "time": datetime.now(UTC).isoformat(),
            "type": "partitions.added",
            "data": {"dataset": "days", "partitions": [f"day={day}"]},
        }
        while True:
            try:
                self._ask("/v1/events", body)
                break
            except (OSError, urllib.error.URLError):
                time.sleep(0.2)
        self.work["random"].asked += self.graph.roots(day)

    def ask_for(self, number: int) -> None:
        """The next client or day: one leaf."""
        app = "random" if number % 2 else "seed"
        edges = self.graph.edges(number) if number % 2 else seed_edges(f"c{number}")
        self.work[app].edges |= edges
        early = app == "random" and self.rng.random() < 0.5
        if early:
            self.arrive(number)
        leaves = [node for node in edges if not any(node in group for groups in edges.values() for group in groups)]
        self.submit(app, self.rng.choice(sorted(leaves)))
        if app == "random" and not early:
            self.arrive(number)

    def run_again(self, *, overlapping: bool) -> None:
        """A root, or while others run any three nodes that have run."""
        for _ in range(3 if overlapping else 1):
            app = self.rng.choice(("seed", "random"))
            work = self.work[app]
            nodes = work.wanted.keys() if overlapping else {n for n, groups in work.edges.items() if not groups}
            chosen = sorted((nodes & work.wanted.keys()) - set(work.again))
            self.submit(app, self.rng.choice(chosen), again=True, overlapping=overlapping)
            time.sleep(self.rng.uniform(0.0, 0.5) if overlapping else 0)

    def _lines(self, app: str = "") -> list[list[str]]:
        """What the runs of an app have noted, or all."""
        lines = [line.split() for line in self.ran.read_text().splitlines()] if self.ran.exists() else []
        return [line for line in lines if line[3].startswith(f"default.{app}." if app else "default.")]

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.dev.url}{path}", data, {"Content-Type": "application/json", **self.dev.process.authorization}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
