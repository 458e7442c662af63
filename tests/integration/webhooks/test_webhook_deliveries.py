"""Changes of jobs and runs at a real receiver: signed, in order, again until they are accepted."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.secret_rules import parse_rules
from streamsched.domain.webhooks.form import EventMode
from streamsched.domain.webhooks.signature import secret_text
from streamsched.domain.webhooks.webhook import Webhook
from streamsched.store.server.gauges import Gauges
from streamsched.store.webhooks.webhooks import WebhookStore
from tests.integration.webhooks.webhook_world import SECRET, Got, WebhookWorld, receiving

RUN = "default.flights.weekly.1.7.r1"


async def test_a_change_is_a_signed_cloud_event(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(f"{far.url}/hook?x=1")
        await world.write((RUN, "run.failed"), ("other.flights.weekly.1.1.r1", "run.failed"), (RUN, "run.muted"))
        assert await world.feeding().run_once() == 3
        await world.settle(owner)

    (got,) = far.got
    assert (got.path, got.headers["content-type"]) == ("/hook?x=1", "application/cloudevents+json")
    assert got.verified()
    assert not got.verified("whsec_" + "A" * 32)
    event = got.event
    assert event.pop("id") == got.headers["webhook-id"]
    assert event.pop("time").endswith("Z")
    assert event == {
        "specversion": "1.0",
        "source": "streamsched/default",
        "type": "streamsched.run.failed",
        "subject": RUN,
        "datacontenttype": "application/json",
        "data": {
            "state": "FAILED",
            "reason": "why",
            "schedule": None,
            "program": None,
            "job": None,
            "run": RUN,
            "attempt": None,
        },
    }


async def test_binary_mode_has_the_attributes_in_headers_and_signs_the_body(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url, mode=EventMode.BINARY)
        await world.write((RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)

    (got,) = far.got
    assert got.verified()
    assert got.event["state"] == "FAILED"
    assert (got.headers["ce-type"], got.headers["ce-subject"]) == ("streamsched.run.failed", RUN)
    assert (got.headers["ce-id"], got.headers["content-type"]) == (got.headers["webhook-id"], "application/json")


async def test_what_waits_goes_to_the_new_url_with_the_new_secret(world: WebhookWorld) -> None:
    new = secret_text(bytes(reversed(range(32))))
    async with receiving(lambda _: "500 Oops") as old, receiving() as other, world.owning() as owner:
        hook = await world.webhook(old.url)
        await world.write((RUN, "run.started"), (RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        store = WebhookStore(world.pool)
        await store.change(
            hook, lambda before: replace(before, url=other.url), secret=new, by="ana", now=world.clock.now()
        )
        world.pass_time(minutes=1)
        await world.settle(owner)

    assert len(old.got) == 1
    assert [got.event["type"] for got in other.got] == ["streamsched.run.started", "streamsched.run.failed"]
    assert other.got[0].headers["webhook-id"] == old.got[0].headers["webhook-id"]
    assert all(got.verified(new, SECRET) for got in other.got), "the old secret signs too for a day"


async def test_the_old_secret_signs_beside_the_new_one_for_its_time(world: WebhookWorld) -> None:
    first, second = (secret_text(bytes([number]) * 32) for number in (1, 2))
    store = WebhookStore(world.pool)

    async def change(secret: str | None, keep_old: timedelta | None = None) -> datetime | None:
        found = await store.change(
            "default.hook", lambda same: same, secret=secret, keep_old=keep_old, by="ana", now=world.clock.now()
        )
        return found.old_until

    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url)

        async def latest() -> Got:
            world.pass_time(seconds=31)
            await world.write((RUN, "run.failed"))
            await world.feeding().run_once()
            await world.settle(owner)
            return far.got[-1]

        with pytest.raises(ConflictError, match="has no old secret"):
            await change(None, timedelta(hours=1))
        assert await change(first) == world.clock.now() + timedelta(days=1)
        assert (await latest()).verified(first, SECRET)
        assert await change(second, timedelta(hours=2)) == world.clock.now() + timedelta(hours=2)
        assert (await latest()).verified(second, first), "one old secret at a time: the last one"
        world.pass_time(hours=2)
        assert (await latest()).verified(second)
        assert await world.store.forget_old_secrets(now=world.clock.now()) == 1
        assert await world.pool.fetchval("SELECT old_secret FROM webhooks") is None
        with pytest.raises(ConflictError, match="has no old secret"):
            await change(None, timedelta(0))

        await change(first)
        assert await change(None, timedelta(0)) is None
        assert (await latest()).verified(first), "ended at once, without another secret"
        assert await change(second, timedelta(0)) is None
        assert (await latest()).verified(second)


async def test_an_old_reference_signs_while_it_can_be_read(world: WebhookWorld) -> None:
    before, after = (secret_text(bytes([number]) * 32) for number in (1, 2))
    world.environ, world.rules = {"HOOK_1": before, "HOOK_2": after}, parse_rules("default=env:HOOK_*")
    store = WebhookStore(world.pool)
    async with receiving() as far, world.owning() as owner:
        hook = await world.webhook(far.url, secret=Secret.parse("env:HOOK_1"))
        following = replace((await store.get(hook)).webhook, secret=Secret.parse("env:HOOK_2"))
        await store.change(hook, lambda _: following, secret=None, by="ana", now=world.clock.now())
        for environ in ({"HOOK_1": before, "HOOK_2": after}, {"HOOK_2": after}):
            world.environ.clear()
            world.environ.update(environ)
            world.pass_time(seconds=31)
            await world.write((RUN, "run.failed"), (RUN, "run.lost"))
            await world.feeding().run_once()
            await world.settle(owner)

    assert [got.verified(after, before) for got in far.got] == [True, True, False, False]
    assert all(got.verified(after) for got in far.got[2:])


async def test_a_failed_change_is_sent_again_with_its_id_before_those_after_it(world: WebhookWorld) -> None:
    refusals = iter(["500 Oops", "302 Found", "429 Too Many Requests"])
    async with receiving(lambda got: next(refusals, "200 OK") if b"weekly" in got.body else "200 OK") as far:
        async with world.owning() as owner:
            hook = await world.webhook(far.url)
            await world.write(
                (RUN, "run.started"), (RUN, "run.failed"), ("default.flights.daily.1.1.r1", "run.started")
            )
            await world.feeding().run_once()
            await world.settle(owner)
            failing = await world.store.get(hook)
            for _ in range(3):
                world.pass_time(minutes=1)
                await world.settle(owner)
        after = await world.store.get(hook)

    assert (failing.queued, failing.attempts, failing.error) == (2, 1, "HTTP 500"), "the other schedule is not held up"
    assert failing.failing_since is not None
    assert failing.next_at is not None
    assert timedelta(seconds=2) < failing.next_at - failing.failing_since < timedelta(seconds=6)
    weekly = [got for got in far.got if got.event["subject"] == RUN]
    assert [got.event["type"].rpartition(".")[2] for got in weekly] == [*["started"] * 4, "failed"]
    assert len({got.headers["webhook-id"] for got in weekly[:4]}) == 1
    assert len({got.headers["webhook-timestamp"] for got in weekly[:4]}) == 4
    assert all(got.verified() for got in far.got)
    assert (after.queued, after.failing_since, after.error) == (0, None, "")


async def test_a_target_that_hangs_holds_up_no_other(world: WebhookWorld) -> None:
    async with receiving(lambda _: None) as hanging, receiving() as far, world.owning() as owner:
        await world.webhook(hanging.url, "hangs")
        await world.webhook(far.url, "works")
        await world.write(*((f"default.flights.s{n}.1.1.r1", "run.completed") for n in range(300)))
        feeding = world.feeding()
        while await feeding.run_once():
            pass
        while len(far.got) < 300:
            await owner.run_once()
            await asyncio.sleep(0.001)
        assert len(hanging.got) <= 10


async def test_410_disables_a_webhook_and_enabling_goes_on_where_it_was(world: WebhookWorld) -> None:
    answers = iter(["410 Gone"])
    async with receiving(lambda _: next(answers, "200 OK")) as far, world.owning() as owner:
        hook = await world.webhook(far.url)
        await world.write((RUN, "run.started"), (RUN, "run.completed"))
        await world.feeding().run_once()
        await world.settle(owner)
        await world.write((RUN, "run.started"))
        assert await world.feeding().run_once() == 0
        disabled = await world.store.get(hook)
        world.pass_time(days=1)
        await world.settle(owner)
        assert len(far.got) == 1, "nothing is sent while it is disabled"
        await world.store.enable(hook, True, "mended", now=world.clock.now())
        await world.feeding().run_once()
        await world.settle(owner)

    assert (disabled.enabled, disabled.by_owner) == (False, False)
    assert disabled.unread > 0
    assert "410" in disabled.reason
    assert [got.event["type"].rpartition(".")[2] for got in far.got] == ["started", "started", "completed", "started"]


async def test_a_webhook_is_disabled_after_three_days_without_success(world: WebhookWorld) -> None:
    async with receiving(lambda _: "500 Oops") as far, world.owning() as owner:
        hook = await world.webhook(far.url)
        await world.write((RUN, "run.started"))
        feeding, gauges = world.feeding(), Gauges(world.pool)
        await feeding.run_once()
        hours = 0
        while not await feeding.disable_failing():
            assert (await world.store.get(hook)).enabled
            world.pass_time(hours=1)
            hours += 1
            await world.settle(owner)
            (failing,) = (await gauges.measure(now=world.clock.now())).webhooks
            assert (failing.queued, failing.failing, failing.given_up) == (1, 3600.0 * hours, False)
        found = await world.store.get(hook)
        (given_up,) = (await gauges.measure(now=world.clock.now())).webhooks
        assert (given_up.queued, given_up.failing, given_up.given_up) == (1, 0.0, True)
        await world.store.enable(hook, True, "", now=world.clock.now())
        await world.settle(owner)
        assert await feeding.disable_failing() == 0, "the three days begin when it is enabled"

    assert (hours, found.enabled, found.queued) == (72, False, 1)
    assert found.reason == "its target has accepted nothing for 3d: HTTP 500"


async def test_a_secret_by_reference_is_read_where_it_is_sent_from_and_shown_nowhere(world: WebhookWorld) -> None:
    world.environ, world.rules = {"SHOP_HOOK": SECRET}, parse_rules("shop=env:SHOP_*")
    async with receiving() as far, world.owning() as owner:
        for namespace in ("shop", "other"):
            await world.webhook(far.url, namespace=namespace, secret=Secret.parse("env:SHOP_HOOK"))
            await world.write((f"{namespace}.a.b.1.1.r1", "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        refused = await world.store.get("other.hook")

    (got,) = far.got
    assert got.verified()
    assert got.event["source"] == "streamsched/shop"
    assert "no rule of STREAMSCHED_SECRETS" in refused.error
    assert SECRET.removeprefix("whsec_") not in repr(refused) + repr(await world.store.get("shop.hook"))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://localhost:9/", "http://[::ffff:10.0.0.1]/", "http://169.254.169.254/"]
)
async def test_nothing_is_sent_to_an_address_that_is_not_public(world: WebhookWorld, url: str) -> None:
    world.networks = ()
    async with world.owning() as owner:
        hook = await world.webhook(url)
        await world.write((RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        assert "is not a public address" in (await world.store.get(hook)).error


async def test_a_name_with_a_private_address_is_not_connected_to(
    world: WebhookWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as far, world.owning() as owner:
        port = far.url.rpartition(":")[2]
        found = socket.getaddrinfo("127.0.0.1", int(port), type=socket.SOCK_STREAM)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        await world.webhook(f"http://permitted.example:{port}/", "permitted")
        await world.write((RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        assert len(far.got) == 1
        world.networks = ()
    async with world.owning() as owner:
        hook = await world.webhook(f"http://refused.example:{port}/", "refused")
        await world.write((RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        assert "127.0.0.1 is not a public address" in (await world.store.get(hook)).error
    assert len(far.got) == 1


async def test_a_webhook_made_again_at_once_has_its_own_url_and_key(world: WebhookWorld) -> None:
    new = secret_text(bytes(reversed(range(32))))
    async with receiving() as old, receiving() as other, world.owning() as owner:
        hook = await world.webhook(old.url)
        await world.write((RUN, "run.started"))
        await world.feeding().run_once()
        await world.settle(owner)
        await world.store.delete(hook)
        again = Webhook(namespace="default", name="hook", url=other.url)
        await world.store.create(again, secret=new, by="test", now=world.clock.now())
        await world.write((RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
    assert [each.event["type"] for each in old.got] == ["streamsched.run.started"]
    assert [each.event["type"] for each in other.got] == ["streamsched.run.failed"]
    assert other.got[0].verified(new)


async def test_a_deleted_webhook_leaves_nothing(world: WebhookWorld) -> None:
    async with receiving(lambda _: "500 Oops") as far, world.owning() as owner:
        hook = await world.webhook(far.url)
        await world.write((RUN, "run.started"), (RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        await world.store.delete(hook)
        world.pass_time(days=1)
        await world.settle(owner)
        with pytest.raises(NotFoundError):
            await world.store.get(hook)
        for table in ("tasks", "task_lanes", "task_queues"):
            assert await world.pool.fetchval(f"SELECT count(*) FROM {table}") == 0
    assert len(far.got) == 1


async def test_secrets_are_nowhere_but_where_they_must_be(
    world: WebhookWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    referred, token = secret_text(b"canary-referred-to-by-env-"), "canary-token-in-the-url"
    world.environ, world.rules = {"SHOP_HOOK": referred}, parse_rules("default=env:SHOP_*")

    async with receiving(lambda _: "500 Oops") as far, world.owning() as owner:
        far.body = lambda got: f"{got.path} {SECRET if 'key=' in got.path else referred}"
        await world.webhook(f"{far.url}/?key={token}", "generated")
        await world.webhook(far.url, "referred", secret=Secret.parse("env:SHOP_HOOK"))
        await world.write((RUN, "run.failed"))
        await world.feeding().run_once()
        await world.settle(owner)
        errors = [(await world.store.get(f"default.{name}")).error for name in ("generated", "referred")]
    assert all(error.startswith("HTTP 500: ") and "[secret]" in error for error in errors)
    tables = await world.pool.fetch(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    stored = {
        name: str(await world.pool.fetch(f'SELECT to_jsonb(t)::text AS line FROM "{name}" AS t'))
        for name in (row["relname"] for row in tables)
    }
    logged = capsys.readouterr()
    for canary, where in ((referred, set[str]()), (SECRET, {"webhooks"}), (token, {"webhooks"})):
        text = canary.removeprefix("whsec_")
        assert {name for name, rows in stored.items() if text in rows} == where
        assert text not in logged.out + logged.err


@pytest.mark.long
async def test_thousands_arrive_in_the_order_of_each_schedule_though_owners_die_and_answers_are_lost(
    world: WebhookWorld,
) -> None:
    number, schedules, deaths, random = 3000, 60, 0, Random(7)

    def answer(_: Got) -> str | None:
        return random.choices(["204 No Content", "500 Oops", "302 Found"], [90, 7, 3])[0]

    async with receiving(answer) as far, AsyncExitStack() as former:
        await world.webhook(far.url)
        await world.write(*((f"default.a.s{n % schedules}.1.{n}.r1", "run.completed") for n in range(number)))
        feeding = world.feeding()
        while (found := await world.store.get("default.hook")).queued or found.unread:
            await feeding.run_once()
            owner = await former.enter_async_context(world.owning())
            for _ in range(random.randint(5, 200)):
                await owner.run_once()
                await asyncio.sleep(0)
            await world.expire()  # the next one fences it, and what it has in flight was sent or not
            world.pass_time(hours=2)
            deaths += 1
        assert found.error == ""

    assert deaths > 5
    first = dict.fromkeys(each.event["subject"] for each in far.got)
    assert len(first) == number
    for schedule in range(schedules):
        mine = [subject for subject in first if subject.startswith(f"default.a.s{schedule}.")]
        assert mine == [f"default.a.s{schedule}.1.{n}.r1" for n in range(schedule, number, schedules)]
    ids = {(each.headers["webhook-id"], each.event["subject"]) for each in far.got}
    assert len(ids) == number
