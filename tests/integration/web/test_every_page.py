"""Every page that is read, on seeded content: hostile texts are escaped, the answer is whole without JavaScript."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from html import escape, unescape
from pathlib import Path
from typing import Final

import orjson
import pytest

from streamsched.api.access.security_headers import POLICY
from streamsched.codec import event as event_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import DEAD_LETTER, EVENTS, SIGNALS
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.ports.runs import RunEnd
from streamsched.roles.services import Services
from streamsched.store.runs.run_store import PostgresRunStore
from tests.integration.web.conftest import Browser, LogIn
from tests.support.api_routes import rules_of_pages
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

HOSTILE: Final = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
FLIGHTS: Final = DatasetRef("default", "flights")
APP: Final = {
    "programs": [{"name": "join", "type": "bash", "command": f"echo '{HOSTILE}'"}],
    "schedules": [
        {
            "name": "weekly",
            "program": "join",
            "description": HOSTILE,
            "properties": {"text": HOSTILE},
            "trigger": {
                "type": "OR",
                "triggers": [
                    {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
                    {"type": "EVENT", "event": "done", "match": {"name": HOSTILE}},
                ],
            },
        },
        {
            "name": "nightly",
            "program": "join",
            "trigger": {"type": "TIME", "cronExpression": "30 2 * * *", "timeZone": "Europe/Berlin"},
        },
    ],
    "expectations": [
        {"dataset": "flights", "by": "08:00", "partition": "day={day}"},
        {"schedule": "weekly", "by": "usual", "every": "week"},
    ],
}
#: Actions that are read by GET have none of these; live streams have no end.
NOT_PAGES: Final = {"GET /ui/live"}


async def seeded(log_in: LogIn, services: Services, log: Path) -> tuple[Browser, dict[str, str]]:
    """A browser, and what the parameters of paths stand for."""
    browser = await log_in()

    async def put(path: str, body: object) -> None:
        answer = await browser.http.put(path, json=body, headers=browser.authorization)
        assert answer.status_code == 200, answer.text

    await put("/v1/apps/default/flights", APP)
    changed = {**APP, "schedules": [{**APP["schedules"][0], "description": "other"}, APP["schedules"][1]]}  # type: ignore[index]
    await put("/v1/apps/default/flights", changed)
    await put("/v1/groups/warehouse", {"limit": 2, "reason": HOSTILE})
    await put("/v1/pools/rows", {"size": 2, "reason": HOSTILE})
    await put("/v1/queues/mails", {"target": {"type": "worker"}, "reason": HOSTILE})
    hook = {
        "name": "alerts",
        "url": "https://alerts.example.com/hook?token=hidden",
        "schedules": ["default.flights.weekly"],
    }
    made = await browser.http.post("/v1/namespaces/default/webhooks", json=hook, headers=browser.authorization)
    assert made.status_code == 201, made.text
    task = {"key": HOSTILE, "lane": HOSTILE, "text": HOSTILE}
    registered = await browser.http.post("/v1/queues/mails/tasks", json=task, headers=browser.authorization)
    assert registered.status_code == 202, registered.text
    made = await browser.send("/ui/schedules/default.flights.weekly/run", arguments=f"day={HOSTILE}", note=HOSTILE)
    job = made.headers["location"].partition("/ui/jobs/")[2].partition("?")[0]
    body = {"now": True, "arguments": {"day": HOSTILE}}
    answer = await browser.http.post("/v1/programs/default.flights.join/runs", json=body, headers=browser.authorization)
    run, store, now = answer.json()["run"], PostgresRunStore(services.pool), services.clock.now()
    await asyncio.to_thread(log.write_text, f"{HOSTILE}\n")
    assert await store.claim(run, runner="host:1:1", log_path=str(log), now=now) is not None
    await store.mark_started(run, runner="host:1:1", now=now)
    await store.finish(run, RunEnd(RunState.FAILED, f"exit code 3: {HOSTILE}", services.clock.now(), exit_code=3))
    filled = await browser.send(
        "/ui/schedules/default.flights.nightly/backfill",
        **{"from": "2026-01-01", "to": "2026-01-05", "token": "t", "note": HOSTILE},
    )
    assert filled.status_code == 303, filled.text
    await StoredWorld(services.pool).add_misses("default.flights.flights", now, key=HOSTILE, reason=HOSTILE)
    await append_events(services)
    return browser, {
        "{schedule}": "default.flights.weekly",
        "{job}": job,
        "{run}": run,
        "{backfill}": filled.headers["location"].rpartition("/")[2],
        "{partition}": "0",
        "{offset}": "0",
        "{name}": "default.flights",
        "{namespace}": "default",
        "{app}": "flights",
        "{queue}": "mails",
        "{webhook}": "alerts",
        "{expectation}": "default.flights.flights",
    }


async def append_events(services: Services) -> None:
    """Partitions of six days with one missing, a custom event, and two dead letters."""
    broker = services.broker
    custom = Event(HOSTILE, HOSTILE, services.clock.now(), CustomHappened(EventName("default", "done"), {"x": HOSTILE}))
    shards = await broker.partitions(SIGNALS)
    records = [Outgoing(EVENTS, 0, custom.key.encode(), event_codec.encode(custom))]
    for day in (1, 2, 3, 5, 6):
        fact = PartitionsAdded(
            FLIGHTS, (Partition(f"date=2013-03-0{day}/x={HOSTILE}", {"date": f"2013-03-0{day}", "x": HOSTILE}),), 1
        )
        event = Event(f"{HOSTILE}-{day}", HOSTILE, services.clock.now(), fact)
        key, value = signal_codec.encode(Occurred(event))
        records.append(Outgoing(SIGNALS, home(key, shards), key, value))
    letter = {
        "topic": "partitions",
        "partition": 0,
        "offset": 0,
        "time_ms": int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000),
        "path": f"$.{HOSTILE}",
        "reason": HOSTILE,
        "key_b64": None,
        "value_b64": "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    }
    records += [Outgoing(DEAD_LETTER, 0, None, orjson.dumps({**letter, "offset": number})) for number in range(2)]
    await broker.append(records)


def text_of(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", markup))


async def test_every_page_is_whole_and_escapes_what_is_hostile(
    log_in: LogIn, services: Services, tmp_path: Path
) -> None:
    browser, names = await seeded(log_in, services, tmp_path / "log.txt")
    pages: dict[str, str] = {}
    for name in rules_of_pages():
        method, path = name.split(" ")
        if method != "GET" or name in NOT_PAGES:
            continue
        for parameter, value in names.items():
            path = path.replace(parameter, value)
        if name == "GET /ui/graphs/{namespace}/{app}":
            continue  # the app has no tasks; another app below has
        query = {"GET /ui/event": {"id": HOSTILE, "source": HOSTILE}, "GET /ui/find": {"q": HOSTILE}}.get(name, {})
        if name == "GET /ui/schedules/{schedule}/backfill":
            path = path.replace("weekly", "nightly")
            query = {"from": "2026-01-01", "to": "2026-01-05"}
        answer = await browser.get(path, **query)
        assert answer.status_code == 200, (name, answer.text[-2000:])
        assert answer.headers["content-security-policy"] == POLICY, name
        pages[name] = answer.text
        if name == "GET /ui/runs/{run}/log":
            assert answer.headers["content-type"].startswith("text/plain"), name
            continue
        assert "<script>alert" not in answer.text, name
        assert "<img" not in answer.text, name
        assert "onerror=alert(1)&gt;" in answer.text or "onerror" not in answer.text, name
        assert "<h1" in answer.text, name
        assert "style=" not in answer.text, name
    shown = [name for name, text in pages.items() if escape(HOSTILE) in text or escape(HOSTILE, quote=False) in text]
    escaped_text = [name for name, text in pages.items() if HOSTILE in text_of(text)]
    expected = {
        "GET /ui/schedules/{schedule}",
        "GET /ui/jobs/{job}",
        "GET /ui/runs/{run}",
        "GET /ui/events",
        "GET /ui/event",
        "GET /ui/dead-letters",
        "GET /ui/dead-letters/{partition}/{offset}",
        "GET /ui/datasets/{name}",
        "GET /ui/expectations",
        "GET /ui/expectations/{expectation}",
    }
    assert expected <= {*shown, *escaped_text}
    assert "Missing: 2013-03-04" in text_of(pages["GET /ui/datasets/{name}"])


async def test_the_tasks_of_a_graph_are_shown_with_the_states_of_their_nodes(log_in: LogIn) -> None:
    browser = await log_in()
    tasks = {"clean": {"job_id": "{d}"}, "model": {"job_id": "{d}", "depends_on": {"task": ["clean"]}}}
    app = {
        "programs": [{"name": "say", "type": "bash", "command": "true"}],
        "tasks": {name: {**each, "program": "say"} for name, each in tasks.items()},
    }
    assert (await browser.http.put("/v1/apps/default/shop", json=app, headers=browser.authorization)).is_success
    asked = {"task": "model", "jobIds": ["7"]}
    graph = "/v1/graphs/default/shop/submit"
    assert (await browser.http.post(graph, json=asked, headers=browser.authorization)).is_success

    shown = await browser.get("/ui/graphs/default/shop")

    assert shown.status_code == 200
    assert "<svg" in shown.text
    assert "1 QUEUED" in shown.text
    assert "1 WAITING" in shown.text


async def test_the_versions_of_a_schedule_and_back_to_one(log_in: LogIn, services: Services, tmp_path: Path) -> None:
    browser, _ = await seeded(log_in, services, tmp_path / "log.txt")
    path = "/ui/schedules/default.flights.weekly/versions"
    versions = (await browser.get(path)).text
    assert re.findall(r'\?of=(\d+)"', versions) == ["2", "1"]
    compared = (await browser.get(path, of="1")).text
    assert "description" in compared
    plan = re.search(r'name="plan" value="([^"]*)"', compared)
    assert plan is not None
    assert (await browser.get(path, of="9")).status_code == 404
    assert (await browser.send(path, of="1", plan=unescape(plan[1]))).status_code == 303
    body = await browser.http.get("/v1/schedules/default.flights.weekly", headers=browser.authorization)
    assert body.json()["description"] == HOSTILE
    assert re.findall(r'\?of=(\d+)"', (await browser.get(path)).text)[0] == "3"


async def test_dead_letters_in_pages_replayed_and_purged(log_in: LogIn, services: Services) -> None:
    browser = await log_in()
    letter = b'{"topic":"partitions","partition":0,"offset":%d,"time_ms":%d,"path":"$","reason":"bad","key_b64":null,'
    letter += b'"value_b64":"e30="}'
    times = [(number, 1_700_000_000_000 + number) for number in range(60)]
    await services.broker.append([Outgoing(DEAD_LETTER, 0, None, letter % each) for each in times])
    first = (await browser.get("/ui/dead-letters")).text
    assert (first.count('<tr id="d-'), "lists the newest 2,000" in first) == (50, False)
    following = unescape(re.search(r'href="([^"]*)" rel="next"|rel="next" href="([^"]*)"', first)[0])  # type: ignore[index]
    second = (await browser.http.get(re.search(r'href="([^"]*)"', following)[1])).text  # type: ignore[index]
    assert (second.count('<tr id="d-'), "lists the newest 2,000" in second) == (10, True)
    at = [TopicPartition("partitions", number) for number in range(await services.broker.partitions("partitions"))]
    before = await services.broker.ends(at)
    assert (await browser.send("/ui/dead-letters/0/59/replay")).status_code == 303
    after = await services.broker.ends(at)
    assert sum(after.values()) == sum(before.values()) + 1
    shown = (await browser.get("/ui/dead-letters/purge")).text
    assert "60" in text_of(shown)
    await services.broker.append([Outgoing(DEAD_LETTER, 0, None, letter % (60, 1_700_000_001_000))])
    assert (await browser.send("/ui/dead-letters/purge", newest="0/59")).status_code == 409
    assert (await browser.send("/ui/dead-letters/purge", newest="0/60")).status_code == 303
    assert "There are none" in (await browser.get("/ui/dead-letters")).text


async def test_backfills_are_those_of_the_own_namespace(log_in: LogIn, services: Services, tmp_path: Path) -> None:
    _, names = await seeded(log_in, services, tmp_path / "log.txt")
    sales = await log_in(Grant(role=AccessRole.VIEWER, namespace="sales"))
    own = await log_in(Grant(role=AccessRole.VIEWER, namespace="default"))
    short = names["{backfill}"].removeprefix("default.")
    for browser, namespace, sees in ((sales, "sales", False), (own, "default", True)):
        page = await browser.get("/ui/backfills", namespace=namespace)
        listed = await browser.http.get("/v1/backfills", params={"namespace": namespace}, headers=browser.authorization)
        assert (page.status_code, short in page.text) == (200, sees)
        assert (listed.status_code, len(listed.json()["backfills"])) == (200, int(sees))
