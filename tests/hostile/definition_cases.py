"""Definitions with extremes in their fields: by the native API, by CDAP's, as settings of pools and groups.

What is taken is exercised: its events are sent, its jobs wait or launch, and all that can be asked about it is asked.
"""

from __future__ import annotations

import random
from typing import Any, Final

import httpx
from hypothesis import HealthCheck, Phase, given, seed, settings

from streamsched.codec.schedules.schedule import app_to_json
from streamsched.testing.definitions import app_definitions
from tests.hostile.case import Made, Site
from tests.hostile.documents import Json, app, bundle, cdap_schedule, constraints, go, policies, programs, triggers
from tests.hostile.extremes import NUMBERS, drawn, worsened

_FAR: Final = "http://127.0.0.1:9"
_KEPT: Final = ("name",)
_VIEWS: Final = ("", "/next", "/next?n=1000", "/why-not", "/keys", "/history")


def native(name: str, rng: random.Random) -> Made:
    """`PUT /v1/apps` of a schedule in one field of which, or in two, stands an extreme."""
    kind = rng.choice(("trigger", "trigger", "constraint", "constraint", "policy", "policy", "program", "any"))
    schedule: Json = {}
    program = programs(name, _FAR)[0]
    times = rng.choice((1, 1, 1, 2))
    match kind:
        case "trigger":
            wrong, said = worsened({"trigger": rng.choice(triggers(name))}, rng, times=times)
            schedule = wrong
            said = f"{said} of {_type(wrong)}"
        case "constraint":
            constraint = rng.choice(constraints(name))
            wrong, said = worsened(constraint, rng, times=times)
            said = f"constraint {constraint['type']}: {said}"
            # Alone, and beside one that lets the job wait.
            schedule = {"constraints": [wrong, *rng.choice(([], [{"type": "CONCURRENCY", "maxConcurrency": 1}]))]}
        case "policy":
            schedule, said = worsened(rng.choice(policies(name)), rng, times=times)
        case "program":
            program, said = worsened(rng.choice(programs(name, _FAR)), rng, times=times, keep=_KEPT)
        case _:
            document = app(name, {"constraints": constraints(name)[:2], **policies(name)[0]}, program)
            whole, said = worsened(document, rng, times=times)
            return f"app with {said}", lambda site: define(site, name, whole)
    return said, lambda site: define(site, name, app(name, schedule, program))


def generated(name: str, rng: random.Random) -> Made:
    """An app that Hypothesis draws, valid, then one extreme in it."""
    found: list[Any] = []

    @seed(rng.randrange(2**32))
    @settings(
        max_examples=3,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(app_definitions())
    def draw(definition: Any) -> None:
        found.append(definition)

    draw()
    document = app_to_json(found[-1])
    del document["namespace"], document["application"]
    for each in (*document["programs"], *document["schedules"]):
        del each["namespace"], each["application"]
    for program in document["programs"]:
        if program["type"] in {"bash", "spark"}:
            program |= {"type": "bash", "command": "true"}
            for field in ("main", "arguments", "conf", "master"):
                program.pop(field, None)
        if program["type"] == "http":
            program["url"] = f"{_FAR}/x"
    for schedule in document["schedules"]:
        schedule["trigger"] = {"type": "OR", "triggers": [schedule["trigger"], go(name)]}
    wrong, said = worsened(document, rng, times=rng.choice((0, 1, 1)))
    return f"generated app with {said or 'nothing changed'}", lambda site: define(site, name, wrong)


def cdap(name: str, rng: random.Random) -> Made:
    """A schedule by CDAP's addresses."""
    trigger = rng.choice(triggers(name))
    document = cdap_schedule(name, trigger, [rng.choice(constraints(name))])
    wrong, said = worsened(document, rng, times=rng.choice((1, 1, 2)), keep=_KEPT)

    async def act(site: Site) -> None:
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {"trigger": go(name)}, programs(name, site.far)[0]))
        path = f"/v3/namespaces/default/apps/{name}/schedules/{name}c"
        answer = await site.ask("PUT", path, wrong)
        if answer is not None and answer.is_success:
            await site.ask("POST", f"{path}/enable")
            await site.ask("POST", "/v1/events", bundle(name))
        await site.ask("POST", f"{path}/update", wrong)
        for view in ("", "/status"):
            await site.ask("GET", path + view)
        some = [{"appId": name, "programId": "p", "programType": "Spark"}]
        worse, _ = worsened(some, random.Random(said))
        for which in ("nextruntime", "previousruntime"):
            await site.ask("POST", f"/v3/namespaces/default/{which}", worse)
        await view_schedule(site, f"default.{name}.{name}c")

    return f"{said} of {trigger['type']}", act


def setting(name: str, rng: random.Random) -> Made:
    """A pool, a group, a priority, a pause, an order for a job: with an extreme."""
    path, body = rng.choice(
        (
            ("PUT /v1/pools/{}p", {"size": 4, "age": "1m", "reason": "it is"}),
            ("PUT /v1/groups/{}g", {"limit": 4, "reason": "it is"}),
            ("PUT /v1/schedules/default.{}.s/priority", {"priority": 1, "reason": "it is"}),
            ("POST /v1/schedules/default.{}.s/pause", {"keep": True, "until": "1h", "note": "n", "reason": "r"}),
            ("POST /v1/schedules/default.{}.s/pause", {"keep": True, "until": "2099-01-01T00:00:00Z"}),
            ("POST /v1/apps/default/{}/pause", {"keep": True, "until": "1s", "note": "n", "reason": "r"}),
            ("POST /v1/programs/default.{}.p/runs", {"arguments": {"day": "monday"}, "now": True}),
            ("POST /v1/programs/default.{}.p/runs", {"arguments": {"day": "monday"}, "reason": "r", "token": "t"}),
            (
                "POST /v1/schedules/default.{}.s/runs",
                {"arguments": {"day": "monday"}, "key": {"d": "1"}, "reason": "r"},
            ),
            ("POST /v1/jobs/default.{}.s.1.1/hold", {"reason": "r"}),
            ("POST /v1/jobs/default.{}.s.1.1/force", {"reason": "r"}),
            ("POST /v1/triggers/next", {"trigger": rng.choice(triggers(name)), "n": 5}),
        )
    )
    wrong, said = worsened(body, rng)
    method, _, address = path.format(name).partition(" ")

    async def act(site: Site) -> None:
        wanted = [each for each in constraints(name) if each["type"] in {"GROUP", "POOL"}]
        await define(site, name, app(name, {"constraints": wanted}, programs(name, site.far)[0]), views=False)
        await site.ask(method, address, wrong)
        await site.ask("POST", "/v1/events", bundle(f"{name}"))
        await view_schedule(site, f"default.{name}.s")
        for view in ("/v1/pools", "/v1/groups"):
            await site.ask("GET", view)

    return f"{path.partition(' ')[0]} {address}: {said}", act


def update(name: str, rng: random.Random) -> Made:
    """A schedule that works, changed to an extreme one while it has jobs; then enabled, resumed, and deleted."""
    wrong, said = worsened(app(name, rng.choice(policies(name)), programs(name, _FAR)[0])["schedules"][0], rng)
    amount = drawn(1, rng) if rng.random() < 0.5 else rng.choice(NUMBERS)

    async def act(site: Site) -> None:
        await define(site, name, app(name, {"trigger": go(name)}, programs(name, site.far)[0]), views=False)
        path = f"/v1/schedules/default.{name}.s"
        await site.ask("PUT", path, {key: value for key, value in wrong.items() if key != "enabled"})
        await site.ask("POST", f"{path}/pause", {"keep": True, "until": amount.value})
        await site.ask("POST", f"{path}/enable")
        await site.ask("POST", "/v1/events", bundle(f"{name}u"))
        await view_schedule(site, f"default.{name}.s")
        await site.ask("POST", f"{path}/replay")
        if rng.random() < 0.5:
            await site.ask("DELETE", path)

    return f"update of a schedule to one with {said}", act


async def define(site: Site, name: str, document: Any, *, views: bool = True) -> None:
    """Deploys, satisfies, asks."""
    answer = await site.ask("PUT", f"/v1/apps/default/{name}", document)
    if answer is None or not answer.is_success:
        return
    await site.ask("POST", "/v1/events", bundle(name), params={"check": "none"})
    if views:
        changed = answer.json()
        named = {
            each for value in changed.values() if isinstance(value, list) for each in value if isinstance(each, str)
        }
        for ref in sorted(each for each in named if each.count(".") >= 2)[:3] or [f"default.{name}.s"]:
            await view_schedule(site, ref)


async def view_schedule(site: Site, ref: str) -> None:
    """All that can be asked about a schedule and its newest jobs."""
    for view in _VIEWS:
        await site.ask("GET", f"/v1/schedules/{ref}{view}")
    answer = await site.ask("GET", "/v1/jobs", params={"schedule": ref, "limit": 3})
    if answer is None or answer.status_code != httpx.codes.OK:
        return
    for job in answer.json()["jobs"]:
        for view in ("", "/why"):
            await site.ask("GET", f"/v1/jobs/{job['id']}{view}")


def _type(document: Json) -> str:
    trigger = document.get("trigger")
    return str(trigger.get("type"))[:40] if isinstance(trigger, dict) else "a trigger that is none"
