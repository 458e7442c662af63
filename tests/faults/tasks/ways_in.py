"""The ways in which tasks of a trial arrive: by the API, or as records of PagerDuty's clients on topics."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import asyncpg
import httpx
import orjson

from streamsched.dialects.pagerduty.codec.partitioner import partition_of_id
from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from tests.faults.judges.log import ends_of, records_up_to
from tests.faults.judges.tasks import Name, Registration
from tests.faults.tasks.watched import WatchingTriggers

#: Seconds after which a topic that is not taken in is a deviation, and between two looks at its positions.
_TAKEN_S: Final = 60.0
_LOOK_S: Final = 0.05


class SentTask(NamedTuple):
    """A registration on its way. `due`: seconds since the epoch, whole milliseconds."""

    name: Name
    version: int
    due: float

    @property
    def data(self) -> Mapping[str, str]:
        """What a delivery brings back: texts only, as PagerDuty's tasks have."""
        return {"lane": self.name.lane, "key": self.name.key, "version": str(self.version), "due": str(self.due)}

    @property
    def time(self) -> str:
        """Its due time with milliseconds and `Z`."""
        return datetime.fromtimestamp(self.due, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Arrival(Protocol):
    """One way in. `keeps_due`: a task that replaces another has the same due time, which belongs to its identity."""

    keeps_due: bool

    async def send(self, queue: str, tasks: Sequence[SentTask]) -> None:
        """Returns when they are acknowledged."""
        ...

    async def drop(self, queue: str, task: SentTask) -> bool:
        """Drops a task; False: it had ended, or had not been stored yet."""
        ...

    async def begin(self, *queues: str) -> None:
        """Before anything is sent to these queues."""
        ...

    async def watch(self) -> None:
        """Records, until cancelled, when what was sent has taken effect."""
        ...

    async def registrations(self) -> Sequence[Registration]:
        """What became of all that was sent, when all has taken effect."""
        ...


class ApiArrival:
    """Registrations over HTTP, which are answered by their verdicts."""

    keeps_due = False

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._answered: list[Registration] = []
        self._ids: dict[Name, str] = {}

    async def send(self, queue: str, tasks: Sequence[SentTask]) -> None:
        body = [{"lane": each.name.lane, "key": each.name.key, "due": each.time, "data": each.data} for each in tasks]
        response = await self._client.post(f"/v1/queues/{queue}/tasks", json=body)
        response.raise_for_status()
        at = time.time()
        for each, found in zip(tasks, response.json()["tasks"], strict=True):
            self._ids[each.name] = found["id"]
            self._answered.append(Registration(*each, found["verdict"], at))

    async def drop(self, queue: str, task: SentTask) -> bool:
        del queue
        response = await self._client.post(f"/v1/tasks/{self._ids[task.name]}/drop", json={})
        if response.status_code == httpx.codes.CONFLICT:
            return False
        response.raise_for_status()
        return response.json()["state"] == "DROPPED"

    async def begin(self, *queues: str) -> None:
        """Needs nothing."""

    async def watch(self) -> None:
        """The answers say it."""

    async def registrations(self) -> Sequence[Registration]:
        return self._answered


class TopicArrival:
    """Records on the topic of each queue. Their verdicts are those that triggers recorded, and they have taken effect
    when the stored position of their partition has passed them.
    """

    keeps_due = True

    def __init__(
        self, client: httpx.AsyncClient, broker: Broker, pool: asyncpg.Pool, triggers: WatchingTriggers
    ) -> None:
        self._client = client
        self._broker = broker
        self._pool = pool
        self._triggers = triggers
        self._sent: list[tuple[str, SentTask]] = []
        self._from: Mapping[TopicPartition, int] = {}
        self._passed: defaultdict[TopicPartition, list[tuple[int, float]]] = defaultdict(list)

    async def send(self, queue: str, tasks: Sequence[SentTask]) -> None:
        partitions = await self._broker.partitions(queue)
        at = {each.name: TopicPartition(queue, partition_of_id(each.name.lane, partitions)) for each in tasks}
        await self._broker.append([Outgoing(*at[each.name], each.name.lane.encode(), _record(each)) for each in tasks])
        self._sent += [(queue, each) for each in tasks]

    async def begin(self, *queues: str) -> None:
        """Records of these queues before this are of other trials. Waits until launchers have made the topics."""
        async with asyncio.timeout(_TAKEN_S):
            while not self._from:
                try:
                    self._from = await ends_of(self._broker, *queues)
                except NotFoundError:
                    await asyncio.sleep(_LOOK_S)

    async def drop(self, queue: str, task: SentTask) -> bool:
        key = f"TaskKey({task.time},{task.name.lane},{task.name.key})"
        body = {"task": {"status": "Dropped"}}
        response = await self._client.put("/api/v1/task", params={"queue": queue, "key": key}, json=body)
        if response.status_code in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            return False
        response.raise_for_status()
        return True

    async def watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_LOOK_S)

    async def registrations(self) -> Sequence[Registration]:
        """Records that were acknowledged and are not in the log have verdict `vanished`."""
        places = await self._places()
        async with asyncio.timeout(_TAKEN_S):
            while not await self._all_taken(places.values()):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
        due = {(each.name, each.version): each.due for _, each in self._sent}
        when = {each: self._when(*places[each]) for each in due if each in places}
        stored = [
            Registration(name, version, due[name, version], verdict, when[name, version])
            for name, version, verdict in await self._triggers.registrations()
            if (name, version) in when
        ]
        known = {(each.name, each.version) for each in stored}
        others = [
            Registration(*each, time_due, "kept" if each in when else "vanished", when.get(each, 0.0))
            for each, time_due in due.items()
            if each not in known
        ]
        return stored + others

    async def _look(self) -> None:
        rows = await self._pool.fetch("SELECT topic, partition, position FROM intake_positions")
        now = time.time()
        for topic, partition, position in rows:
            passed = self._passed[TopicPartition(topic, partition)]
            if not passed or passed[-1][0] < position:
                passed.append((position, now))

    async def _places(self) -> Mapping[tuple[Name, int], tuple[TopicPartition, int]]:
        """Where each registration is in the log first, and the position after it."""
        found = dict[tuple[Name, int], tuple[TopicPartition, int]]()
        ends = await ends_of(self._broker, *{queue for queue, _ in self._sent})
        async for place, record in records_up_to(self._broker, ends, self._from):
            task = orjson.loads(record.value or b"")["taskData"]
            found.setdefault((Name(task["lane"], task["key"]), int(task["version"])), (place, record.offset + 1))
        return found

    async def _all_taken(self, places: Iterable[tuple[TopicPartition, int]]) -> bool:
        await self._look()
        return all(self._passed[at] and self._passed[at][-1][0] >= end for at, end in places)

    def _when(self, at: TopicPartition, end: int) -> float:
        passed = self._passed[at]
        return passed[bisect_left(passed, (end, 0.0))][1]


def _record(task: SentTask) -> bytes:
    """As PagerDuty's clients write it."""
    return orjson.dumps(
        {
            "orderingId": task.name.lane,
            "scheduledTime": task.time,
            "uniquenessKey": task.name.key,
            "taskData": dict(task.data),
            "version": 1,
        }
    )
