"""Failures of apps as mail, at a real server: with link and log, once, again with the same Message-ID, and few."""

from __future__ import annotations

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsched import mail
from streamsched.domain.notices.mail_rules import parse_mail_rules
from streamsched.domain.notices.mail_server import MailServer, MailSettings
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.secret_rules import SecretRule
from tests.integration.webhooks.failing_apps import RUN, TEAM, deploy, fail, notify
from tests.integration.webhooks.webhook_world import PAGES, WebhookWorld
from tests.support.certificates import certificate
from tests.support.mail_server import MailBox, receiving_mail, text_of

pytestmark = pytest.mark.postgres


def sending_to(box: MailBox, scheme: str = "smtp+plain", **more: Any) -> MailSettings:
    server = MailServer.parse(f"{scheme}://127.0.0.1:{box.port}")
    return MailSettings(server, "scheduler@example.org", parse_mail_rules("*=@example.org"), **more)


async def test_a_failure_is_mailed_with_its_link_and_its_log(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, mail(TEAM, "oncall@example.org"))
            await fail(world, RUN, log_tail="loading\nTraceback:\nKeyError: 'größe'")
            assert await notify(world, owner) == 1
            assert await notify(world, owner) == 0

    (message,) = box.mails
    assert box.envelopes == [("scheduler@example.org", (TEAM, "oncall@example.org"))]
    assert message["Subject"] == "[streamsched] shop.daily failed: exit code 1"
    assert message["Auto-Submitted"] == "auto-generated"
    text = text_of(message)
    assert f"{PAGES}/ui/runs/{RUN}" in text
    assert "KeyError: 'größe'" in text
    assert f"streamsched run logs {RUN}" in text
    assert "when: 2026-01-01 00:00:00Z" in text


@pytest.mark.parametrize("reply", ["451 try later", "421 closing"])
async def test_a_mail_that_is_refused_for_now_is_sent_again_with_its_id(world: WebhookWorld, reply: str) -> None:
    replies = iter([reply, reply])
    with receiving_mail() as box:
        box.answer = lambda _: next(replies, "250 OK")
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await notify(world, owner)
            for _ in range(3):
                world.pass_time(minutes=5)
                await world.settle(owner)
    assert len(box.mails) == 3
    assert len(set(box.ids)) == 1
    assert box.ids[0].endswith("@example.org>")


async def test_an_owner_that_is_gone_between_sending_and_its_answer_sends_it_again_with_its_id(
    world: WebhookWorld,
) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        await deploy(world, TEAM)
        await fail(world, RUN)
        async with world.owning() as first:
            await world.notifying().run_once()
            await first.run_once()
            await first.wait_until_delivered()  # the server has it, and nothing of that is stored
            await world.expire()
            async with world.owning() as second:
                world.pass_time(minutes=2)
                await world.settle(second)
    assert len(box.mails) == 2
    assert len(set(box.ids)) == 1


async def test_a_refusal_for_good_ends_after_a_few_attempts(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        box.answer = lambda _: "554 no such content"
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await notify(world, owner)
            for _ in range(10):
                world.pass_time(hours=1)
                await world.settle(owner)
            box.answer = lambda _: "250 OK"
            await fail(world, RUN)
            await notify(world, owner)
    assert len(box.mails) == 4, "three of the first, and the one after it"
    row = await world.pool.fetchrow(
        "SELECT state, record ->> 'reason' AS reason FROM tasks_history ORDER BY at LIMIT 1"
    )
    assert row is not None
    assert row["state"] == "FAILED"


async def test_ten_thousand_failures_are_two_mails(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await notify(world, owner)
            for begin in range(0, 10_000, 1000):
                subjects = [f"default.shop.daily.1.{number}.r1" for number in range(begin, begin + 1000)]
                await fail(world, *subjects, log_tail="x" * 2000)
                world.pass_time(seconds=1)
                await notify(world, owner)
            assert len(box.mails) == 1, "the next one not before a minute has passed"
            world.pass_time(minutes=1)
            await notify(world, owner)
            world.pass_time(minutes=1)
            assert await notify(world, owner) == 0
    assert len(box.mails) == 2
    assert box.subjects[1].startswith("[streamsched] 10,000 notifications, first: shop.daily failed")
    text = text_of(box.mails[1])
    assert "10,000 run.failed" in text
    assert "and 9,980 more" in text
    assert len(box.mails[1].as_bytes()) < 64_000


async def test_nothing_that_happens_while_the_server_is_away_is_lost(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
    async with world.owning() as owner:
        await deploy(world, TEAM)
        await fail(world, RUN)
        await notify(world, owner)
        for number in range(5):
            world.pass_time(hours=1)
            await fail(world, f"default.shop.weekly.1.{number}.r1")
            await notify(world, owner)
        [row] = await world.tasks()
        assert row is not None
        assert "no mail server" in row.error
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            for _ in range(3):
                world.pass_time(hours=2)
                await notify(world, owner)
    assert box.subjects[0].startswith("[streamsched] shop.daily failed")
    assert box.subjects[1].startswith("[streamsched] 5 notifications of shop.weekly")
    assert len(box.mails) == 2


async def test_only_what_recipients_want_is_sent(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(
                world, mail("weekly@example.org", schedules=["weekly"]), mail("well@example.org", recovered=True)
            )
            await world.write(("default.shop.daily.1.1.r1", "run.failed"), ("default.shop.daily.1.1.r1", "run.killed"))
            await world.write(("default.other.daily.1.1.r1", "run.failed"))
            assert await notify(world, owner) == 0, "another attempt follows, or a person killed it, or another app's"
            run, now = "default.shop.load.x.r1", world.clock.now()
            await world.add_line("run", run, "run.recovered", now, reason="it failed since 2026")
            await notify(world, owner)
    assert [envelope[1] for envelope in box.envelopes] == [("well@example.org",)]
    assert "is well again" in box.subjects[0]


async def test_no_text_from_outside_becomes_a_header_or_a_recipient(world: WebhookWorld) -> None:
    hostile = "boom\r\nBcc: victim@evil.example\r\n\r\n<script>\x00\x1b[31m \u202e" + "ü" * 5000
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM)
            tail = f".\r\n.\r\nRCPT TO:<a@b>\n{hostile[1:40]}".replace("\0", "\x01")
            await fail(world, RUN, reason=hostile.replace("\0", ""), log_tail=tail)
            await notify(world, owner)
    (message,) = box.mails
    assert box.envelopes == [("scheduler@example.org", (TEAM,))]
    assert message["Bcc"] is None
    assert len(message.get_all("Subject", [])) == 1
    assert "victim@evil.example" in str(message["Subject"]), "as a part of one line"
    assert "\n.\n.\nRCPT TO:<a@b>" in text_of(message)
    assert "\x1b" not in message.as_string()
    assert len(str(message["Subject"])) < 200


async def test_mail_goes_only_where_the_installation_permits(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, mail("a@evil.example"), mail("b@evil.example", TEAM))
            await fail(world, RUN)
            await notify(world, owner)
    assert [envelope[1] for envelope in box.envelopes] == [(TEAM,)]
    reasons = [row["reason"] for row in await world.pool.fetch("SELECT record::text AS reason FROM tasks_history")]
    assert any(reason and "no rule of STREAMSCHED_MAIL_TO permits namespace default" in reason for reason in reasons)


async def test_what_an_app_does_not_name_any_more_is_not_sent(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await world.notifying().run_once()
            await deploy(world, "others@example.org")
            await world.settle(owner)
    assert box.mails == []


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
@pytest.mark.filterwarnings("ignore:Requiring AUTH")
async def test_it_logs_in_over_tls_with_a_password_that_is_nowhere_else(
    world: WebhookWorld,
    scheme: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key, chain = certificate(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    secret = Secret.parse("env:MAIL_PASSWORD")
    with receiving_mail(**{"starttls" if scheme == "smtp" else "tls": context}, login=("robot", "canary-pass")) as box:
        world.mail = sending_to(box, scheme, user="robot", secret=secret)
        world.mail_rules = [SecretRule.parse("*=env:MAIL_PASSWORD")]
        world.environ = {"MAIL_PASSWORD": "wrong-canary"}
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await notify(world, owner)
            assert box.mails == []
            world.environ["MAIL_PASSWORD"] = "canary-pass"
            world.pass_time(minutes=1)
            await world.settle(owner)
    assert (box.encrypted, box.logins[-1]) == ([True], (b"robot", b"canary-pass"))
    stored = str(await world.pool.fetch("SELECT to_jsonb(t)::text FROM tasks_history t"))
    logged = capsys.readouterr()
    assert "canary" not in stored + logged.out + logged.err


async def test_without_tls_on_the_other_side_nothing_is_sent(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box, "smtp")
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await notify(world, owner)
    assert box.mails == []
    [row] = await world.tasks()
    assert row is not None
    assert "STARTTLS" in row.error


async def test_two_that_notify_at_once_send_one_mail(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM)
            await fail(world, RUN)
            await asyncio.gather(*(world.notifying().run_once() for _ in range(4)))
            await world.settle(owner)
    assert len(box.mails) == 1


async def test_a_recipient_that_cannot_be_read_holds_up_no_other(world: WebhookWorld) -> None:
    with receiving_mail() as box:
        world.mail = sending_to(box)
        async with world.owning() as owner:
            await deploy(world, TEAM, mail("second@example.org"))
            await world.pool.execute("UPDATE notice_recipients SET definition = '{\"mail\": 7}' WHERE place = 1")
            await fail(world, RUN)
            await notify(world, owner)
            world.pass_time(minutes=2)
            await notify(world, owner)
    assert [envelope[1] for envelope in box.envelopes] == [("second@example.org",)]


def test_a_minute_is_between_two_messages() -> None:
    from streamsched.domain.webhooks.webhook import PACE

    assert timedelta(minutes=1) == PACE
