"""What people and programs are notified of: messages for Slack and Teams, webhooks and programs of apps, and which
changes are sent.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from streamsched import webhook
from streamsched.api.routes.webhooks.webhooks import shown_url
from streamsched.domain.webhooks.form import WebhookFormat
from streamsched.store.webhooks.webhooks import WebhookStore
from tests.integration.webhooks.failing_apps import RUN, deploy, fail, notify, ran, write
from tests.integration.webhooks.webhook_world import PAGES, WebhookWorld, receiving

pytestmark = pytest.mark.postgres

JOB = "default.shop.daily.1.7"
#: What went wrong besides runs: of an expectation, a job and a schedule.
MISSED = (
    "expectation",
    "default.shop.flights",
    "expectation.missed",
    "not there by 08:00",
    {"dataset": "default.flights", "due_at": "2026-03-02T07:00:00+00:00"},
)
OVERDUE = ("job", JOB, "job.deadline_missed", "not finished by 09:00", {})
PAUSED = ("schedule", "default.shop.daily", "paused", "3 of its runs failed", {"by": "itself"})
BY_HAND = ("schedule", "default.shop.daily", "paused", "a holiday", {"by": "ann"})
LATE = ("expectation", "default.shop.flights", "expectation.met_late", "came 2h late", {"dataset": "default.flights"})


def texts(value: Any) -> list[str]:
    """All texts of elements of a message."""
    if isinstance(value, dict):
        own = [value["text"]] if isinstance(value.get("text"), str) else []
        return own + [each for member in value.values() for each in texts(member)]
    return [each for member in value for each in texts(member)] if isinstance(value, list) else []


async def feed(world: WebhookWorld, owner: Any) -> None:
    await world.feeding(PAGES).run_once()
    await world.settle(owner)


async def test_a_failure_in_slack(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(f"{far.url}/services/T0/B0/x", format=WebhookFormat.SLACK, changes=frozenset({"failure"}))
        await write(world, ("run", RUN, "run.failed", "again", {}), ("run", RUN, "run.started", "", {}))
        await fail(world, RUN, log_tail="a\n<b>&c")
        await feed(world, owner)

    (got,) = far.got
    assert (got.path, got.headers["content-type"]) == ("/services/T0/B0/x", "application/json")
    assert got.event["text"] == "shop.daily failed: exit code 1"
    assert {each["type"] for each in got.event["blocks"]} == {"rich_text"}
    parts = [each["elements"][0] for each in got.event["blocks"]]
    log = next(each for each in parts if each["type"] == "rich_text_preformatted")
    assert log["elements"] == [{"type": "text", "text": "a\n<b>&c"}]
    links = [one["url"] for part in parts for one in part["elements"] if one["type"] == "link"]
    assert links == [f"{PAGES}/ui/runs/{RUN}"]


async def test_a_failure_in_teams(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url, format=WebhookFormat.TEAMS, changes=frozenset({"failure"}))
        await fail(world, RUN, log_tail="a\n**b**")
        await feed(world, owner)

    (got,) = far.got
    assert got.event["type"] == "message"
    (attachment,) = got.event["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert [(each["type"], each["url"]) for each in card["actions"]] == [("Action.OpenUrl", f"{PAGES}/ui/runs/{RUN}")]
    assert {each["type"] for each in card["body"]} == {"RichTextBlock"}
    assert "a\n**b**" in texts(card["body"])


async def test_the_path_of_a_chat_is_a_secret(world: WebhookWorld) -> None:
    async with receiving(lambda _: "404 Not Found") as far, world.owning() as owner:
        far.body = lambda got: f"no_service {got.path}"
        hook = await world.webhook(f"{far.url}/services/T0/B0/hidden", format=WebhookFormat.SLACK)
        await fail(world, RUN)
        await feed(world, owner)
    record = await WebhookStore(world.pool).get(hook)
    assert "no_service" in record.error
    assert "hidden" not in record.error
    assert shown_url(record.webhook) == f"{far.url}/…"


@pytest.mark.parametrize("form", [WebhookFormat.SLACK, WebhookFormat.TEAMS])
async def test_hostile_texts_stay_texts_of_a_bounded_size(world: WebhookWorld, form: WebhookFormat) -> None:
    hostile = "<!channel> <https://evil|x> *b* [x](y) <at>all</at>\r\n\x07\u202e" + "é😀" * 20_000
    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url, format=form, changes=frozenset({"failure"}))
        await fail(world, *[RUN] * 300, reason=hostile, log_tail=hostile)
        await feed(world, owner)

    (got,) = far.got
    assert len(got.body) < 28_000
    if form is WebhookFormat.SLACK:
        assert "<" not in got.event["text"]
        blocks = got.event["blocks"]
        assert len(blocks) <= 50
        kinds = {one["type"] for block in blocks for part in block["elements"] for one in part["elements"]}
        assert kinds <= {"text", "link"}
    shown = texts(got.event)
    assert any(text.startswith("300 notifications") for text in shown)
    assert not any(sign in text for text in shown for sign in ("\x07", "\u202e", "\r"))


async def test_people_get_one_message_a_minute_with_all_that_happened(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url, format=WebhookFormat.SLACK, changes=frozenset({"failure"}))
        await fail(world, RUN)
        await feed(world, owner)
        await fail(world, *[RUN] * 9_998)
        await write(world, MISSED, OVERDUE, PAUSED, BY_HAND)
        await feed(world, owner)
        assert len(far.got) == 1, "within the minute"
        world.pass_time(minutes=1)
        await feed(world, owner)

    assert far.got[1].event["text"].startswith("10,000 notifications")
    counted = texts(far.got[1].event)
    wanted = "10,000 notifications: 1 deadline.missed, 1 expectation.missed, 9,998 run.failed"
    assert wanted in counted, "one message counts at most so many, and the rest is in the next"
    assert "…" in counted, "only the first ones have room"


async def test_a_chat_that_is_away_gets_all_of_it_in_one_message_later(world: WebhookWorld) -> None:
    answers = ["500 Oops"] * 3
    async with receiving(lambda _: answers.pop() if answers else "200 OK") as far, world.owning() as owner:
        await world.webhook(far.url, format=WebhookFormat.SLACK, changes=frozenset({"failure"}))
        for _ in range(6):
            await fail(world, RUN)
            await feed(world, owner)
            world.pass_time(minutes=5)

    ids = [got.headers["webhook-id"] for got in far.got]
    assert len(set(ids[:4])) == 1, "the first is tried again as the same"
    assert far.got[4].event["text"].startswith("4 notifications of shop.daily")


async def test_a_webhook_for_programs_is_sent_what_went_wrong_besides_runs(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url)
        await world.webhook(far.url, name="old", changes=frozenset({"job.*", "run.*"}))
        await write(world, MISSED, OVERDUE, PAUSED, BY_HAND, LATE)
        await fail(world, RUN, log_tail="KeyError")
        await feed(world, owner)

    found = [(got.event["type"].removeprefix("streamsched."), got.event["data"]) for got in far.got]
    of_all = {kind: data for kind, data in found if kind != "run.failed"}
    assert set(of_all) == {"expectation.missed", "deadline.missed", "schedule.paused", "expectation.met_late"}
    assert len(found) == len(of_all) + 2, "the one of jobs and runs gets what it got before"
    assert of_all["expectation.missed"]["link"] == f"{PAGES}/ui/expectations/default.shop.flights"
    assert of_all["expectation.missed"]["dataset"] == "default.flights"
    assert of_all["deadline.missed"]["link"] == f"{PAGES}/ui/jobs/{JOB}"
    failed = next(data for kind, data in found if kind == "run.failed")
    assert (failed["log_tail"], failed["link"], failed["failed"]) == ("KeyError", f"{PAGES}/ui/runs/{RUN}", "run")
    assert (failed["state"], failed["reason"], failed["run"]) == ("FAILED", "exit code 1", RUN)


async def test_a_webhook_of_an_app_is_sent_its_failures_only(world: WebhookWorld) -> None:
    async with receiving() as far, receiving() as chat, world.owning() as owner:
        await world.webhook(far.url, name="oncall", changes=frozenset({"run.lost"}))
        await world.webhook(chat.url, name="chat", format=WebhookFormat.SLACK, changes=frozenset({"run.lost"}))
        await deploy(world, webhook("oncall"), webhook("chat", schedules=["daily"], recovered=True))
        await ran(world)
        await fail(world, RUN, "default.shop.weekly.1.1.r1", "default.other.daily.1.1.r1")
        again = ("run", RUN, "run.failed", "is tried again", {})
        await write(world, again, MISSED, ("run", RUN, "run.recovered", "", {}))
        assert await notify(world, owner) == 2

    assert sorted(far.subjects) == [RUN, "default.shop.flights", "default.shop.weekly.1.1.r1"]
    assert all(got.verified() for got in far.got)
    (message,) = chat.got
    assert message.event["text"].startswith("2 notifications"), message.event["text"]


async def test_a_webhook_that_is_not_there_is_said_in_the_history_of_the_app(world: WebhookWorld) -> None:
    async with world.owning() as owner:
        await deploy(world, webhook("oncall"))
        await fail(world, RUN)
        await notify(world, owner)
        async with receiving() as far:
            await world.webhook(far.url, name="oncall")
            await WebhookStore(world.pool).enable("default.oncall", False, "", now=world.clock.now())
            await fail(world, RUN)
            world.pass_time(minutes=1)
            await notify(world, owner)
            assert far.got == []
    said = await world.history(action="app.not_notified")
    assert [(line.subject, line.reason.rpartition(": ")[2]) for line in said] == [
        ("default.shop", "it does not exist"),
        ("default.shop", "it is disabled"),
    ]


async def test_a_program_is_started_once_with_what_failed(world: WebhookWorld) -> None:
    async with world.owning() as owner:
        await deploy(world, rescued=True)
        await fail(world, RUN, f"{JOB}.r2", log_tail="KeyError")
        assert await notify(world, owner) == 1
        assert await notify(world, owner) == 0

    [run] = await world.stored_runs()
    assert run.program == "default.shop.rescue"
    given = {name.removeprefix("failure."): value for name, value in run.arguments.items()}
    assert given == {
        "count": "2",
        "subjects": f"{RUN},{JOB}.r2",
        "kind": "run.failed",
        "subject": f"{JOB}.r2",
        "at": world.clock.now().isoformat(),
        "headline": "shop.daily failed: exit code 1",
        "reason": "exit code 1",
        "link": f"{PAGES}/ui/runs/{JOB}.r2",
        "log_tail": "KeyError",
    }


async def test_the_failure_of_the_program_itself_starts_it_not_again(world: WebhookWorld) -> None:
    async with world.owning() as owner:
        await deploy(world, rescued=True)
        await fail(world, RUN)
        await notify(world, owner)
        [run] = [each.id for each in await world.stored_runs()]
        for _ in range(3):
            world.pass_time(minutes=2)
            await fail(world, run)
            await notify(world, owner)
    assert await world.size("runs") == 1


async def test_two_that_notify_at_once_start_a_program_once(world: WebhookWorld) -> None:
    await deploy(world, rescued=True)
    await fail(world, *[RUN] * 50)
    started = await asyncio.gather(*(world.notifying().run_once() for _ in range(4)))
    assert sum(started) == 1
    assert await world.size("runs") == 1


async def test_old_failures_are_not_sent_to_a_new_recipient(world: WebhookWorld) -> None:
    async with receiving() as far, world.owning() as owner:
        await world.webhook(far.url, name="oncall", changes=frozenset({"run.lost"}))
        await deploy(world)
        await fail(world, RUN)
        await notify(world, owner)
        await deploy(world, webhook("oncall"))
        world.clock.advance(timedelta(minutes=2))
        assert await notify(world, owner) == 0
    assert far.got == []
