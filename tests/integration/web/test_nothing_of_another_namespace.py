"""Two tenants in one installation: no answer to one names anything of the other, and none says whether it exists.

Routes and pages, their parameters and the roles come from the tables that the product itself uses.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import orjson
import pytest

from streamsched.codec import event as event_codec
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.decisions.decision_batch import judge_programs
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import Outgoing
from streamsched.roles.services import Services
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.runs.run_store import PostgresRunStore
from streamsched.web.app import page_routes
from streamsched.web.rendering import Renderer
from tests.integration.web.conftest import Browser, LogIn
from tests.support.api_routes import rules_of_pages
from tests.support.described_answers import api_document, operations
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

#: What every name of the other tenant has, and what of the same length no name has.
MARK, ABSENT = "zqxmark", "zqxnone"
OWN, FOREIGN = "sales", "finance"
#: Streams without an end; `/ui/live` says only that something has changed.
_ENDLESS: Final = {"GET /ui/live"}
_QUERIES: Final = re.compile(r"""(?:query|query_params\.get|query_params\.getlist)\("([\w-]+)"\)""")
#: What differs between two answers to the same request.
_VARYING: Final = re.compile(r"\d{2}:\d{2}:\d{2}(?:\.\d+)?|page-[0-9a-f]+|[\w-]{43,}")


class Names(NamedTuple):
    """What path parameters and queries stand for."""

    namespace: str
    name: str
    job: str
    run: str
    backfill: str
    event: str

    def of(self, parameter: str, *, in_cdap: bool = False) -> str:
        match parameter:
            case "namespace" | "trigger-namespace-id":
                return self.namespace
            case "schedule" | "program" if in_cdap:
                return self.name
            case "schedule" | "program" | "expectation":
                return f"{self.namespace}.{self.name}.{self.name}"
            case "job" | "run" | "backfill" | "event":
                return getattr(self, parameter)
            case "category" | "trigger-program-type":
                return "workflows"
            case "version" | "change" | "partition" | "offset":
                return "1"
            case _:
                return self.name

    def values(self) -> Iterator[str]:
        """Everything that a query may ask for."""
        name = f"{self.namespace}.{self.name}"
        yield from (self.namespace, self.name, name, f"{name}.{self.name}", self.job, self.run, self.backfill)
        yield from (self.event, f"partition:{name}")
        yield from (f"{kind}:{name}" for kind in ("dataset", "event", "stream"))
        yield from (f"{kind}:{name}.{self.name}" for kind in ("schedule", "program"))

    def as_absent(self) -> Names:
        return Names(*(each.replace(MARK, ABSENT) for each in self))


def app(namespace: str, name: str) -> dict[str, Any]:
    """An app whose jobs share a group and a pool with those of others, and that listens to both tenants' datasets."""
    shared = [
        {"type": "GROUP", "group": "shared", "limit": 1, "weight": 1, "waitUntilMet": True},
        {"type": "POOL", "pool": "shared", "size": 1, "waitUntilMet": True},
    ]
    datasets = {f"{namespace}.{name}", f"{OWN}.raw"}
    return {
        "expectations": [
            {"name": name, "dataset": f"{namespace}.{name}", "every": "day", "by": "08:00", "program": name},
            {"name": f"{name}-raw", "dataset": f"{OWN}.raw", "every": "day", "by": "08:00"},
        ],
        "onFailure": [{"program": name}],
        "programs": [{"name": name, "type": "bash", "command": f"echo {name}", "defaults": {name: name}}],
        "schedules": [
            {
                "name": name,
                "program": name,
                "description": name,
                "properties": {name: name},
                "constraints": shared,
                "trigger": {
                    "type": "OR",
                    "triggers": [
                        *({"type": "PARTITION", "dataset": each, "numPartitions": 7} for each in sorted(datasets)),
                        {"type": "EVENT", "event": f"{namespace}.{name}"},
                        {
                            "type": "PROGRAM_STATUS",
                            "programId": f"{OWN}.own.own",
                            "programStatuses": ["FAILED"],
                        },
                        {"type": "TIME", "cronExpression": "0 3 * * *"},
                    ],
                },
            }
        ],
    }


async def tenant(admin: Browser, services: Services, namespace: str, name: str, folder: Path) -> Names:
    """A namespace with one thing of every kind, all of this name, and a job that wants the shared group and pool."""
    head = {**admin.authorization, "Idempotency-Key": name}

    async def send(method: str, path: str, body: object, *statuses: int) -> Any:
        answer = await admin.http.request(method, path, json=body, headers=head)
        assert answer.status_code in (statuses or (200,)), (path, answer.text)
        return answer.json()

    await send("PUT", f"/v1/apps/{namespace}/{name}", app(namespace, name))
    graph = f"{namespace}/g-{name}"
    tasks = {name: {"job_id": "{d}", "program": name}}
    await send("PUT", f"/v1/apps/{graph}", {"programs": app(namespace, name)["programs"], "tasks": tasks})
    await send("POST", f"/v1/graphs/{graph}/submit", {"task": name, "jobIds": [name]}, 200, 202)
    await send("POST", f"/v1/dapr/{namespace}/{name}/jobs/{name}", {"schedule": "@every 1h", "data": name}, 201)
    schedule = f"{namespace}.{name}.{name}"
    hook = {"name": name, "url": f"https://{name}.example.com/", "schedules": [schedule]}
    await send("POST", f"/v1/namespaces/{namespace}/webhooks", hook, 201)
    await send("PUT", f"/v1/namespaces/{namespace}/preferences", {"arguments": {name: name}})
    await send("PUT", f"/v1/namespaces/{namespace}/spark-profiles/{name}", {"master": f"spark://{name}:7077"}, 200, 201)
    await send("PUT", f"/v1/namespaces/{namespace}/quotas/runs", {"limit": 90, "reason": name})
    await send("PUT", f"/v1/bookmarks/watch.{namespace}.{name}", {"value": name, "revision": 0})
    await send(
        "POST",
        f"/v1/schedules/{schedule}/backfills",
        {"from": "2026-01-01", "to": "2026-01-02", "reason": name, "arguments": {name: name}},
        200,
        202,
    )
    job = await send("POST", f"/v1/schedules/{schedule}/runs", {"reason": name, "arguments": {name: name}}, 201, 202)
    event = {"id": f"{name}-event", "source": name, "type": "partitions.added"}
    event |= {"data": {"dataset": f"{namespace}.{name}", "partitions": [f"day={name}"]}}
    raw = orjson.dumps(event)
    decoded = event_codec.decode(raw, fallback_id="x", fallback_time=services.clock.now())
    await services.broker.append([Outgoing(PARTITIONS, 0, decoded.key.encode(), raw)])
    now, decisions = services.clock.now(), DecisionStore(services.pool)
    async with decisions.lock([schedule], now=now, limit=1, jobs=[job["job"]]) as batch:
        await batch.store(judge_programs(batch.inputs, batch.resources, now=now))
    log = folder / f"{name}.log"
    await asyncio.to_thread(log.write_text, f"{name}\n")
    run = f"{job['job']}.r1"
    if await PostgresRunStore(services.pool).claim(run, runner="h:1:1", log_path=str(log), now=now) is not None:
        await PostgresRunStore(services.pool).mark_started(run, runner="h:1:1", now=now)
    return Names(namespace, name, job["job"], run, f"{schedule}.backfill-{name}", f"{name}-event")


async def installation(log_in: LogIn, services: Services, folder: Path) -> tuple[Names, Names]:
    """Both tenants. The run of the other one holds what the job of this one waits for."""
    admin = await log_in()
    foreign = await tenant(admin, services, FOREIGN, MARK, folder)
    own = await tenant(admin, services, OWN, "own", folder)
    run = (await StoredWorld(services.pool).run(foreign.run)).state
    assert run == "RUNNING"
    reason = (await StoredWorld(services.pool).job(own.job)).reason
    assert "1 of 1 slots of group shared are taken: 1 run of another namespace" in reason
    return own, foreign


def reads(surface: str) -> Iterator[tuple[str, list[str]]]:
    """The path pattern of every route, or page, that is read, with its query parameters."""
    if surface == "routes":
        for method, path, operation in operations(api_document()):
            if method == "GET":
                yield path, [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        return
    handlers = {each.name: each.handler for each in page_routes(Renderer())}
    assert handlers.keys() >= {name for name in rules_of_pages() if name.startswith("GET")} - _ENDLESS
    for name in rules_of_pages():
        method, path = name.split(" ")
        if method == "GET" and name not in _ENDLESS:
            handler = handlers[name]
            source = inspect.getsource(inspect.getmodule(getattr(handler, "func", handler)) or re)
            yield path, sorted({"namespace", *_QUERIES.findall(source)})


def filled(path: str, names: Names, namespace: str) -> str:
    """The path with these names, of which it may put the namespace into another."""
    names = names._replace(namespace=namespace)
    in_cdap = path.startswith("/v3/")
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: names.of(found[1], in_cdap=in_cdap), path)


def asked(surface: str, own: Names, foreign: Names, *, queries: bool) -> Iterator[str]:
    """What is asked: every read of what is one's own, alone and with every query for what is another's; and of what is
    another's, also as if it were in one's own namespace.
    """
    for path, parameters in reads(surface):
        ends = "&seconds=0" if path == "/v1/decisions" else ""
        for scope in ("", f"namespace={OWN}", f"app={OWN}.own", f"schedule={OWN}.own.own"):
            yield f"{filled(path, own, OWN)}?{scope}{ends}"
        if "{" in path:
            yield f"{filled(path, foreign, FOREIGN)}?{ends}"
            yield f"{filled(path, foreign, OWN)}?{ends}"
        if not queries:
            continue
        for parameter, value in itertools.product(parameters, foreign.values()):
            within = f"namespace={OWN}&" if "namespace" in parameters else ""
            yield f"{filled(path, own, OWN)}?{within}{parameter}={value}{ends}"
        if path.endswith("trigger-type/program-status"):
            yield f"{filled(path, own, OWN)}?" + "&".join(f"{each}={own.of(each)}" for each in parameters[-5:-1])


def same_but_for_the_name(real: httpx.Response, absent: httpx.Response) -> bool:
    """Whether the answers about a name that exists, and about one that does not, differ in nothing but the name."""
    texts = [
        _VARYING.sub("", each.text.replace(ABSENT, MARK)) + each.headers.get("location", "").replace(ABSENT, MARK)
        for each in (real, absent)
    ]
    lengths = real.headers.get("content-length"), absent.headers.get("content-length")
    return real.status_code == absent.status_code and texts[0] == texts[1] and lengths[0] == lengths[1]


@pytest.mark.parametrize("surface", ["routes", "pages"])
@pytest.mark.parametrize(
    ("role", "queries"),
    [
        pytest.param(AccessRole.VIEWER, False),
        pytest.param(AccessRole.VIEWER, True, marks=(pytest.mark.long, pytest.mark.nightly)),
        pytest.param(AccessRole.OPERATOR, False, marks=pytest.mark.long),
        pytest.param(AccessRole.DEVELOPER, False, marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(900)
async def test_no_answer_names_what_is_of_another_namespace(
    log_in: LogIn, services: Services, tmp_path: Path, surface: str, role: AccessRole, *, queries: bool
) -> None:
    own, foreign = await installation(log_in, services, tmp_path)
    browser = await log_in(Grant(role=role, namespace=OWN))
    wrong: list[str] = []
    counts = {"answers": 0, "200": 0, "pairs": 0}
    for url in dict.fromkeys(asked(surface, own, foreign, queries=queries)):
        for method in ("GET", "HEAD") if url.startswith("/ui/") else ("GET",):
            answer = await browser.http.request(method, url, headers=browser.authorization)
            counts["answers"] += 1
            counts["200"] += answer.status_code == 200
            if answer.status_code >= 500:
                wrong.append(f"{method} {url}: {answer.status_code}")
            if MARK not in url:
                if MARK in answer.text or MARK in str(answer.headers):
                    wrong.append(f"{method} {url}: names it: {excerpt(answer.text)}")
                continue
            counts["pairs"] += 1
            absent = answer
            for _ in range(3):  # texts such as `9 s` change between two requests
                absent = await browser.http.request(method, url.replace(MARK, ABSENT), headers=browser.authorization)
                if same_but_for_the_name(answer, absent):
                    break
                answer = await browser.http.request(method, url, headers=browser.authorization)
            else:
                wrong.append(f"{method} {url}: {answer.status_code}, {absent.status_code} for a name that is absent")
    sys.stdout.write(f"{role}, {surface}: {counts}, {len(wrong)} wrong\n")
    assert counts["200"] > 50
    assert not wrong, "\n".join(wrong[:60])


def excerpt(text: str) -> str:
    at = text.find(MARK)
    return text[max(0, at - 80) : at + 60].replace("\n", " ")
