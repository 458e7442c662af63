"""Programs that misbehave, and plug-ins that do: what launchers execute, ask, and start."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from tests.hostile.case import Made, Site
from tests.hostile.definition_cases import define, view_schedule
from tests.hostile.documents import Json, app, bundle
from tests.hostile.extremes import TEXTS, Raw
from tests.hostile.far_server import ANSWERS
from tests.hostile.plugin import ACTS

#: Each ends by itself within about 20 s, whatever is done about it.
SCRIPTS: Final = (
    ("floods its log", "head -c 104857600 /dev/zero | tr '\\0' 'x'"),
    ("floods its log with lines", "yes 'a line of a log that is not read' | head -n 2000000"),
    ("floods its log with NULs and broken UTF-8", "head -c 20000000 /dev/urandom; head -c 1000000 /dev/zero"),
    ("exits with 255", "exit 255"),
    ("exits with 137", "exit 137"),
    ("kills itself", "kill -9 $$"),
    ("stops itself", "(sleep 8; kill -CONT $$) & kill -STOP $$"),
    ("ignores SIGTERM", "trap '' TERM INT HUP; for n in 1 2 3 4 5 6 7 8; do sleep 1; done"),
    ("leaves a child behind", "setsid sleep 15 & exit 0"),
    ("leaves a child with its output open", "sleep 15 & exit 0"),
    ("forks many children", "for n in $(seq 40); do sleep 5 & done; wait"),
    ("closes its output", "exec >&- 2>&-; sleep 1"),
    ("reads its input", "cat; cat; echo done"),
    ("is no command", "/nonexistent/command --with 'an open quote"),
    ("takes much memory", "head -c 300000000 /dev/zero | tail -c 1 | wc -c"),
    # In a folder of its own: a program inherits the working directory of its launcher, which is the checkout here.
    ("deletes its own folder", 'cd "$(mktemp -d)" && rm -rf "$PWD"; echo gone'),
    ("kills its parent", "kill -9 $PPID; sleep 1"),
    ("is 100,000 characters long", "true " + "#" * 100_000),
    ("is 3,000,000 characters long", "true " + "#" * 3_000_000),
)


def http(name: str, rng: random.Random) -> Made:
    """An `http` program whose server is hostile."""
    kind = rng.choice([each for each in ANSWERS if each != "well"])
    program: Json = {
        "name": "p",
        "type": "http",
        "url": "",
        "method": rng.choice(("GET", "POST", "DELETE")),
        "timeout": rng.choice(("1s", "5s", "30s", "4000000d")),
    }

    async def act(site: Site) -> None:
        described = {**program, "url": f"{site.far}/{kind}"}
        await define(site, name, app(name, {"overlap": "queue"}, described), views=False)
        await asyncio.sleep(0.2)
        await view_schedule(site, f"default.{name}.s")

    return f"the server of an http program: {kind}, timeout {program['timeout']}", act


def bash(name: str, rng: random.Random) -> Made:
    """A `bash` program that misbehaves, and is killed meanwhile now and then."""
    said, script = rng.choice(SCRIPTS)
    killed = rng.random() < 0.4

    async def act(site: Site) -> None:
        await site.ask(
            "PUT", f"/v1/apps/default/{name}", app(name, {}, {"name": "p", "type": "bash", "command": script})
        )
        await site.ask("POST", "/v1/events", bundle(name)[:1])
        await _follow(site, name, killed=killed)

    return f"a bash program that {said}" + (" and is killed" if killed else ""), act


def publish(name: str, rng: random.Random) -> Made:
    """A `publish` program with absurd attributes, templates and names."""
    extreme = rng.choice((*TEXTS, *TEXTS))
    kind = rng.choice(("value", "name", "event", "many", "own", "template"))
    attributes: Json = {"a": "b"}
    event: object = f"{name}said"
    match kind:
        case "value":
            attributes = {"a": extreme.value}
        case "name" if not isinstance(extreme.value, Raw):
            attributes = {extreme.value: "b"}
        case "event":
            event = extreme.value
        case "many":
            attributes = {f"a{n}": "{trigger.job}" * 10 for n in range(20_000)}
        case "own":
            event = f"{name}go"  # it starts itself, again and again, one after another
            attributes = {"by": "ops"}
        case _:
            attributes = {"a": "{a}", "b": "{trigger.nothing}", "c": "{", "d": "{{{{"}
    program: Json = {"name": "p", "type": "publish", "event": event, "attributes": attributes}
    schedule: Json = {"properties": {"a": "{a}" * 1000}, "constraints": []}
    if kind == "own":
        schedule["constraints"] = [{"type": "RATE", "maxRuns": 2, "per": "1s"}]

    async def act(site: Site) -> None:
        await define(site, name, app(name, schedule, program), views=False)
        await asyncio.sleep(0.2)
        await view_schedule(site, f"default.{name}.s")
        if kind == "own":
            await site.ask("POST", f"/v1/schedules/default.{name}.s/disable")

    return f"a publish program, {kind}: {extreme.name}", act


def plugin(name: str, rng: random.Random) -> Made:
    """A plug-in that misbehaves, when it is made or when it is asked."""
    act_name = rng.choice([each for each in ACTS if each != "nothing"])
    # While a schedule is checked, the plug-in is made in the API's own process.
    at = "ask" if act_name in {"hang", "burn"} or rng.random() < 0.7 else "make"
    wanted = [{"type": "PLUGIN", "name": "hostile", "config": {"do": act_name, "at": at}}]

    async def act(site: Site) -> None:
        publishes = {"name": "p", "type": "publish", "event": f"{name}said"}
        await define(site, name, app(name, {"constraints": wanted, "overlap": "queue"}, publishes), views=False)
        await asyncio.sleep(0.5)
        await view_schedule(site, f"default.{name}.s")

    return f"a plug-in: {act_name} when {'asked' if at == 'ask' else 'made'}", act


async def _follow(site: Site, name: str, *, killed: bool) -> None:
    """Until the run has ended, or for a while; what it logged is asked for meanwhile."""
    for turn in range(20):
        await asyncio.sleep(0.25)
        answer = await site.ask("GET", "/v1/runs", params={"program": f"default.{name}.p"})
        runs = answer.json()["runs"] if answer is not None and answer.is_success else []
        for run in runs:
            await site.ask("GET", f"/v1/runs/{run['id']}/logs", params={"tail": 100_000})
            if killed and turn > 1:
                await site.ask("POST", f"/v1/runs/{run['id']}/kill", {"atOnce": turn > 8})
        if runs and all(run["state"] in {"COMPLETED", "FAILED", "KILLED", "LOST"} for run in runs):
            return
