"""Launchers that judge expectations and send mail, killed again and again: each due time is missed once, and what is
mailed again is the same message.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import asyncpg
import pytest

from streamsched import App, cron
from streamsched.catalog import deployment
from streamsched.codec import event as event_codec
from streamsched.domain.events.event import CustomHappened
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.connections import open_pool
from tests.faults.load.stored import until
from tests.faults.processes.command import environ, module
from tests.faults.processes.placed import PlacedProcesses
from tests.support.mail_server import MailBox, receiving_mail, text_of

pytestmark = [pytest.mark.torture, pytest.mark.postgres, pytest.mark.timeout(240)]

PLACES = ("one", "two")
APPS, OF_EACH = 5, 40
KILLS = 8
READ = "SELECT position >= (SELECT max(id) FROM decisions) FROM history_readers WHERE name = 'notices'"


def start(processes: PlacedProcesses, place: str, url: str, port: int) -> None:
    processes.start(place, module("tests.faults.processes.notices_process", url, str(port)))


async def deploy(pool: asyncpg.Pool, name: str, expectations: int) -> None:
    """An app that expects a run of each of its schedules by eight, and mails what is missing."""
    app, now = App(name, on_failure=f"{name}@example.org"), datetime.now(UTC)
    load, rescue = app.bash("load", "true"), app.bash("rescue", "true")
    for number in range(expectations):
        schedule = app.schedule(f"s{number}", load, when=cron("0 5 * * *"))
        app.expect(schedule, by="08:00", then=rescue)
    wanted = app.definition()
    await CatalogStore(pool).change(
        wanted.ref,
        None,
        lambda found: deployment.deploy(found, wanted, update_schedules=True, now=now),
        now=now,
        programs=[program.ref for program in wanted.programs],
    )


async def become_due(pool: asyncpg.Pool, over: timedelta) -> None:
    """The expectations are due now, one after the other in so long, instead of tomorrow."""
    await pool.execute(
        "UPDATE expectations e SET since = now() - interval '1 day', due_at = now() + n.place * $1::interval"
        " FROM (SELECT id, random() AS place FROM expectations) n WHERE n.id = e.id",
        over,
    )


async def pass_minute(pool: asyncpg.Pool) -> None:
    await pool.execute("UPDATE notice_recipients SET sent_at = sent_at - interval '1 minute'")


def counted(mail: EmailMessage) -> int:
    """How many misses a mail is about."""
    first = text_of(mail).split(" ", 1)[0].replace(",", "")
    return int(first) if first.isdigit() else 1


async def test_a_launcher_that_is_killed_before_the_answer_sends_the_same_mail_again(
    database: str, tmp_path: Path
) -> None:
    pool, killed = await open_pool(database), list[int]()

    def kill_first(mail: EmailMessage) -> str:
        if not killed:
            killed.append(processes.replace("only"))
        return "250 OK"

    with receiving_mail() as box:
        box.answer = kill_first
        await deploy(pool, "shop", 1)
        await pool.execute("INSERT INTO history_readers SELECT 'notices', 0 ON CONFLICT DO NOTHING")
        await become_due(pool, timedelta(0))
        with PlacedProcesses(tmp_path, environ()) as processes:
            start(processes, "only", database, box.port)
            await until(pool, "SELECT count(*) = 1 FROM tasks_history WHERE state = 'SUCCEEDED'", within_s=90)
    assert killed
    assert len(box.mails) == 2
    assert len(set(box.ids)) == 1
    assert len({text_of(each) for each in box.mails}) == 1
    assert await pool.fetchval("SELECT count(*) FROM runs") == 1
    await pool.close()


async def test_killing_launchers_misses_each_due_time_once_and_mails_each_miss(database: str, tmp_path: Path) -> None:
    rng, pool = random.Random(1), await open_pool(database)
    for number in range(APPS):
        await deploy(pool, f"app{number}", OF_EACH)
    await pool.execute("INSERT INTO history_readers SELECT 'notices', 0 ON CONFLICT DO NOTHING")

    def slow(mail: EmailMessage) -> str:
        time.sleep(0.3)  # in the thread of the server: a kill meanwhile leaves the answer unread
        return "250 OK"

    with receiving_mail() as box:
        box.answer = slow
        await become_due(pool, timedelta(seconds=12))
        with PlacedProcesses(tmp_path, environ()) as processes:
            for place in PLACES:
                start(processes, place, database, box.port)
            for _ in range(KILLS):
                await asyncio.sleep(rng.uniform(0.5, 2.5))
                processes.replace(PLACES[rng.randrange(2)])
                await pass_minute(pool)
            await until(pool, "SELECT count(*) = $1 FROM expectation_misses", APPS * OF_EACH, within_s=90)
            await until(pool, READ, within_s=90)
            while await pool.fetchval("SELECT count(*) FROM notice_recipients WHERE first IS NOT NULL"):
                await asyncio.sleep(0.5)
                await pass_minute(pool)
            await until(pool, "SELECT count(*) = 0 FROM tasks WHERE queue = 'webhook.mail'", within_s=90)
    await check(pool, box)
    await pool.close()


async def check(pool: asyncpg.Pool, box: MailBox) -> None:
    ids = [row["id"] for row in await pool.fetch("SELECT id FROM expectations")]
    once = dict.fromkeys(ids, 1)
    assert Counter(row["expectation"] for row in await pool.fetch("SELECT expectation FROM expectation_misses")) == once
    events: Counter[str] = Counter()
    for row in await pool.fetch("SELECT value FROM outbox WHERE topic = 'events'"):
        fact = event_codec.decode(row["value"], fallback_id="", fallback_time=datetime.now(UTC)).fact
        assert isinstance(fact, CustomHappened)
        events[fact.attributes["expectation"]] += 1
    assert events == once
    runs = await pool.fetch("SELECT arguments ->> 'expectation.name' AS name FROM runs")
    assert len(runs) == len(ids)
    by_id: dict[str, set[str]] = {}
    for mail in box.mails:
        by_id.setdefault(str(mail["Message-ID"]), set()).add(text_of(mail))
    assert all(len(found) == 1 for found in by_id.values()), "a mail that is sent again is the same"
    firsts = {str(mail["Message-ID"]): mail for mail in box.mails}
    assert sum(map(counted, firsts.values())) == len(ids)
