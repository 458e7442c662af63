"""Mutated events by the hundred thousand, over HTTP and straight into the log of a real installation.

    python -m tests.fuzz.events --broker kafka --events 1000000 --seed 1

Two workers, two launchers and an API run as processes, with schedules of every kind of trigger that listen to what the
events announce. Half of the events are posted: bytes one by one, documents in batches. The other half are appended to
the public topics. What must hold: every answer is one that the reference documents, and each event of a request is
accepted or refused with its path; the dead letters of the public topics are exactly the records that are no events,
each with a path and a reason; no process ends, logs an error of its own, or keeps more memory than its limit; and
afterwards canaries launch. The last line is `RESULT {json}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import asyncpg
import httpx
import orjson
import structlog

from streamsched.codec import event as event_codec
from streamsched.domain.errors import DecodeError
from streamsched.log.drivers import open_broker
from streamsched.log.records import records
from streamsched.log.topics import DEAD_LETTER, PUBLIC, topic_specs
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from tests.faults.sites.installation_site import SHARDS, temporary_site
from tests.fuzz.mutations import Mutations, corpus
from tests.hostile import plugin
from tests.hostile.canary import Canaries
from tests.hostile.event_cases import HEARD, listeners
from tests.hostile.extremes import written
from tests.hostile.far_server import far_server
from tests.hostile.processes import Processes
from tests.hostile.warm_roles import WarmRoles

#: Documents in a batch, records in one append, requests at a time.
_BATCH: Final = 200
_APPENDED: Final = 500
_AT_ONCE: Final = 8
#: Of the events over HTTP, one in so many is posted alone, as bytes.
_ALONE: Final = 5
_CONTENT: Final = ("application/json", "application/cloudevents+json", "application/json; charset=utf-16", "text/plain")
#: The answers that the reference documents.
_ANSWERS: Final = frozenset({202, 400, 413, 415})
#: Seconds without progress after which the workers are stuck.
_STUCK_S: Final = 120.0
_JUDGED: Final = frozenset(PUBLIC)


@dataclass(slots=True)
class Fuzzed:
    """What came of the events.

    Attributes:
        wrong: what must not be, in words, each with how often.
    """

    sent: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    accepted: int = 0
    refused: int = 0
    dead: int = 0
    wrong: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class EventFuzz:
    """One run on an installation."""

    broker: Broker
    client: httpx.AsyncClient
    mutations: Mutations
    found: Fuzzed = field(default_factory=Fuzzed)

    async def post(self, events: int) -> None:
        """So many over HTTP: batches of documents, and between them bytes alone."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def in_turn(body: bytes, content: str, count: int | None) -> None:
            try:
                await self._posted(body, content, count)
            finally:
                turns.release()

        async with asyncio.TaskGroup() as group:
            left = events
            while left > 0:
                documents = [written(self.mutations.document()) for _ in range(min(_BATCH, left))]
                documents = [raw for raw in documents if _is_json(raw)]
                await turns.acquire()
                body = b"[" + b",".join(documents) + b"]"
                group.create_task(in_turn(body, "application/json", len(documents)))
                alone = min(left - len(documents), len(documents) // (_ALONE - 1))
                for number in range(max(0, alone)):
                    await turns.acquire()
                    content = _CONTENT[0] if number % 8 else _CONTENT[number // 8 % len(_CONTENT)]
                    group.create_task(in_turn(self.mutations.mutated(), content, None))
                left -= len(documents) + max(0, alone)
                self.found.sent["http"] += len(documents) + max(0, alone)

    async def append(self, events: int) -> None:
        """So many into the public topics, to partitions in turn."""
        topics = sorted(PUBLIC)
        for start in range(0, events, _APPENDED):
            some = [
                Outgoing(
                    topics[number % len(topics)],
                    number // len(topics) % SHARDS,
                    None if number % 3 else b"partition:default.heard",
                    self.mutations.mutated() if number % 4 else written(self.mutations.document()),
                )
                for number in range(start, min(events, start + _APPENDED))
            ]
            await self.broker.append(some)
            self.found.sent["log"] += len(some)

    async def judge(self) -> None:
        """Waits until the workers have processed everything, and compares the dead letters with what is no event."""
        expected = {place async for place in self._no_events()}
        progress, since = -1, time.monotonic()
        letters: dict[tuple[str, int, int], dict[str, Any]] = {}
        while len(letters) < len(expected):
            letters = await self._letters()
            if len(letters) > progress:
                progress, since = len(letters), time.monotonic()
            elif time.monotonic() - since > _STUCK_S:
                break
            else:
                await asyncio.sleep(1)
        self.found.dead = len(letters)
        self._wrong("a record that is no event and has no dead letter", len(expected - letters.keys()))
        self._wrong("an event that has a dead letter", len(letters.keys() - expected))
        bare = [letter for letter in letters.values() if not (letter["path"].startswith("$") and letter["reason"])]
        self._wrong("a dead letter without a path or a reason", len(bare))
        unforeseen = [letter["reason"] for letter in letters.values() if "cannot be processed" in letter["reason"]]
        for reason in unforeseen:
            self._wrong(f"refused by an unexpected exception: {reason[:200]}", 1)

    async def _posted(self, body: bytes, content: str, count: int | None) -> None:
        answer = await self.client.post("/v1/events", content=body, headers={"content-type": content}, timeout=120)
        self.found.answers[answer.status_code] += 1
        if answer.status_code not in _ANSWERS:
            self._wrong(f"{answer.status_code}: {answer.text[:200]}", 1)
            return
        said = answer.json()
        accepted, errors = said.get("accepted", 0), said.get("errors", [])
        self.found.accepted += accepted
        self.found.refused += len(errors)
        if count is not None and answer.status_code in (202, 400):
            self._wrong("an event of a batch neither accepted nor refused", abs(accepted + len(errors) - count))
        if any(not (error["path"].startswith("$") and error["reason"]) for error in errors):
            self._wrong("refused without a path or a reason", 1)
        if answer.status_code == 400 and not (said.get("path") or errors):
            self._wrong(f"400 without a path: {answer.text[:200]}", 1)

    async def _no_events(self) -> AsyncIterator[tuple[str, int, int]]:
        """Places of the records of public topics that the codec refuses."""
        now = datetime.now(UTC)
        for at, end in (await self._ends(_JUDGED)).items():
            async for record in records(self.broker, at, start=0, end=end):
                place = (at.topic, at.partition, record.offset)
                try:
                    event_codec.decode(
                        record.value or b"", fallback_id=f"log:{'/'.join(map(str, place))}", fallback_time=now
                    )
                except DecodeError:
                    yield place

    async def _letters(self) -> dict[tuple[str, int, int], dict[str, Any]]:
        found: dict[tuple[str, int, int], dict[str, Any]] = {}
        for at, end in (await self._ends({DEAD_LETTER})).items():
            async for record in records(self.broker, at, start=0, end=end):
                letter = orjson.loads(record.value or b"{}")
                if letter["topic"] in _JUDGED:
                    place = (letter["topic"], letter["partition"], letter["offset"])
                    self._wrong("a record with two dead letters", place in found)
                    found[place] = {"path": letter["path"], "reason": letter["reason"]}
        return found

    async def _ends(self, topics: frozenset[str] | set[str]) -> dict[TopicPartition, int]:
        at = [TopicPartition(topic, n) for topic in sorted(topics) for n in range(await self.broker.partitions(topic))]
        return dict(await self.broker.ends(at))

    def _wrong(self, what: str, times: int) -> None:
        if times:
            self.found.wrong[what] += times


def _is_json(raw: bytes) -> bool:
    """Whether it can stand in a list without breaking it: the list's other documents are judged too."""
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


def _listeners() -> dict[str, Any]:
    """The schedules of hostile trials, paced so that a million events start few jobs."""
    made = listeners()
    for schedule in made["schedules"]:
        schedule["constraints"] = [{"type": "RATE", "maxRuns": 1, "per": "10s"}]
    return made


@asynccontextmanager
async def _installation(broker_kind: str, mutations: Mutations) -> AsyncIterator[tuple[EventFuzz, Processes, Canaries]]:
    stack = ExitStack()
    base = await asyncio.to_thread(stack.enter_context, temporary_site(broker_kind))
    warm = WarmRoles(Path(stack.enter_context(TemporaryDirectory(prefix="ss-warm-"))))
    try:
        plugin.install(base.folder / "plugins")
        processes = Processes(base, base.folder / "plugins", warm)
        broker = await open_broker(base.log)
        await broker.create_topics(topic_specs(SHARDS, timedelta(days=7)))
        async with (
            asyncpg.create_pool(base.database, min_size=1, max_size=4) as pool,
            httpx.AsyncClient(base_url=base.api) as client,
            far_server() as far,
        ):
            try:
                await processes.start()
                canaries = Canaries(client, pool, far)
                await canaries.deploy()
                (await client.put(f"/v1/apps/default/{HEARD}", json=_listeners(), timeout=60)).raise_for_status()
                await canaries.sing()
                processes.baseline = dict(processes.memory_mb())
                yield EventFuzz(broker, client, mutations), processes, canaries
            finally:
                await processes.stop()
                await broker.close()
    finally:
        warm.stop()
        await asyncio.to_thread(stack.close)


async def fuzz(broker: str, events: int, seed: int, seeds: list[bytes]) -> dict[str, Any]:
    """One run. Returns what was measured; `wrong` is empty when all held."""
    began = time.monotonic()
    async with _installation(broker, Mutations(seed, seeds)) as (run, processes, canaries):
        await asyncio.gather(run.post(events // 2), run.append(events - events // 2))
        sent = time.monotonic() - began
        await run.judge()
        took = await canaries.sing()
        for name, seconds in took.items():
            if seconds == float("inf"):
                run.found.wrong[f"canary {name} did not launch"] += 1
        wrong = run.found.wrong + processes.broken()
        for place, why in {**processes.ended(), **processes.swollen()}.items():
            wrong[f"{place}: {why[-500:]}"] += 1
        return {
            "events": sum(run.found.sent.values()),
            "sent": dict(run.found.sent),
            "answers": {str(status): times for status, times in sorted(run.found.answers.items())},
            "accepted": run.found.accepted,
            "refused": run.found.refused,
            "dead_letters": run.found.dead,
            "largest_mb": round(max(processes.memory_mb().values())),
            "slowest_canary_s": round(max(took.values()), 2),
            "sent_s": round(sent),
            "took_s": round(time.monotonic() - began),
            "wrong": dict(wrong),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="kafka")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=2000, help="documents that Hypothesis draws")
    parser.add_argument("--corpus", type=Path, help="a folder of more documents, such as that of tests.fuzz.coverage")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    seeds = corpus(asked.seed, asked.examples)
    if asked.corpus is not None:
        seeds += [path.read_bytes() for path in sorted(asked.corpus.iterdir())]
    found = asyncio.run(fuzz(asked.broker, asked.events, asked.seed, seeds))
    sys.stdout.write(f"RESULT {json.dumps(found)}\n")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
