"""Who is notified of the failures of apps: which lines of the history wait for them, and what messages are made. Times
are UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, assert_never

import orjson
import structlog

from streamsched.codec.schedules.recipient import recipient_from_json
from streamsched.codec.webhooks.cloud_event import event_of
from streamsched.codec.webhooks.messages import change_task, notice_task
from streamsched.codec.webhooks.notification import notification_of
from streamsched.domain.errors import describe_failure
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.notices.notification import MOST_SHOWN
from streamsched.domain.notices.recipient import MailRecipient, ProgramRecipient, Recipient, WebhookRecipient
from streamsched.domain.webhooks.change import WorkLine
from streamsched.domain.webhooks.webhook import MAIL_POLICY, MAIL_QUEUE, queue_of
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.runs import manual_runs
from streamsched.store.runs.rows import SQL as RUNS
from streamsched.store.sql import Select, fetch_value, queries
from streamsched.store.tasks.queues import open_queue
from streamsched.store.tasks.registration import enqueue
from streamsched.store.webhooks.webhooks import read_definition
from streamsched.store.webhooks.work_history import readable_line

log = structlog.get_logger()

#: Parts of a subject that name its app, and characters of a recipient's id that name its lane.
_APP: Final = 2
_LANE: Final = 200
#: Events that are put into the queue of a webhook for programs at a time.
_MOST_EVENTS: Final = 500
_PREFIX: Final = "failure."


class WaitingRecipient(NamedTuple):
    """A recipient for whom there may be something. `first`: the number of the first line."""

    id: str
    app: AppRef
    recipient: Recipient
    first: int


class _Line(NamedTuple):
    id: int
    subject: str


class _Waiting(NamedTuple):
    id: str
    app: str
    definition: Any
    first: int


class _Recipient(NamedTuple):
    app: str
    definition: Any


class _NamedWebhook(NamedTuple):
    definition: Any
    enabled: bool


_SQL: Final = queries("webhooks/notices")
_NEXT: Final = Select(_SQL["next"], _Line)
_WAITING: Final = Select(_SQL["waiting"], _Waiting)
_LINES: Final = Select(_SQL["lines"], WorkLine)
_RECIPIENT: Final = Select(_SQL["recipient"], _Recipient)
_WEBHOOK: Final = Select(_SQL["webhook"], _NamedWebhook)


class NoticeStore:
    """All methods raise `UnavailableError` when PostgreSQL is unavailable. Of two instances that read the same, one
    finds that the other was first. `pages`: the address of the pages.
    """

    def __init__(self, pool: Pool, *, pages: str = "") -> None:
        self._pool = pool
        self._pages = pages

    async def notice(self, settled: int, *, limit: int) -> int:
        """Notes for which recipients there is something in the next lines of the history up to a number that is
        settled; returns how many lines of failures were read.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                position = await fetch_value(connection, _SQL["reader"], int)
                rows = await _NEXT.fetch(connection, position, settled, limit) if settled > position else []
                first: dict[str, int] = {}
                for row in rows:
                    first.setdefault(".".join(row.subject.split(".", _APP)[:_APP]), row.id)
                if first:
                    await connection.execute(_SQL["note"], list(first), list(first.values()))
                reached = rows[-1].id if len(rows) == limit else settled
                if reached > position:
                    await connection.execute(_SQL["advance_reader"], reached)
        return len(rows)

    async def due_recipients(self, *, now: datetime, pace: timedelta, limit: int) -> Sequence[WaitingRecipient]:
        """Recipients for whom there is something, whose latest message was made at least `pace` ago and has been
        delivered, those that wait longest first. One that this release cannot read is left out, and logged.
        """
        with translate_errors():
            rows = await _WAITING.fetch(self._pool, now - pace, limit, MAIL_QUEUE)
        found: list[WaitingRecipient] = []
        for row in rows:
            try:
                recipient = recipient_from_json(row.definition)
            except Exception as failure:  # noqa: BLE001 - a row may hold anything; the others are notified
                log.error("recipient.unreadable", recipient=row.id, reason=describe_failure(failure))
                continue
            found.append(WaitingRecipient(row.id, AppRef.parse(row.app), recipient, row.first))
        return found

    async def send(
        self, waiting: WaitingRecipient, wants: Callable[[WorkLine], bool], *, now: datetime, limit: int
    ) -> int:
        """Makes the message about at most `limit` lines, and puts it into its queue, or starts the program, in one
        transaction. Returns about how many lines it is; 0: there was none that it wants.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                position = await fetch_value(connection, _SQL["reader"], int)
                if await connection.fetchval(_SQL["lock"], waiting.id) != waiting.first:
                    return 0
                rows = await _LINES.fetch(connection, waiting.first, position, str(waiting.app), limit)
                lines = [line for line in map(readable_line, rows) if wants(line)]
                following = rows[-1].number + 1 if len(rows) == limit else None
                if lines:
                    lines, following = await self._deliver(connection, waiting, lines, following, now)
                await connection.execute(_SQL["sent"], waiting.id, following, now if lines else None)
        return len(lines)

    async def recipient(self, identity: str) -> tuple[AppRef, MailRecipient] | None:
        """The recipient of mail with this id; None: its app notifies it no more."""
        with translate_errors():
            row = await _RECIPIENT.fetchrow(self._pool, identity)
        if row is None:
            return None
        found = recipient_from_json(row.definition)
        return (AppRef.parse(row.app), found) if isinstance(found, MailRecipient) else None

    async def _deliver(
        self,
        connection: Connection,
        waiting: WaitingRecipient,
        lines: list[WorkLine],
        following: int | None,
        now: datetime,
    ) -> tuple[list[WorkLine], int | None]:
        """Returns the lines that were delivered, and the number of the next one."""
        match waiting.recipient:
            case MailRecipient():
                if not await connection.fetchval(_SQL["has_queue"], MAIL_QUEUE):
                    await open_queue(connection, MAIL_QUEUE, MAIL_POLICY, now)
                await self._store(connection, MAIL_QUEUE, waiting, lines, now)
            case WebhookRecipient(webhook=name):
                hook = f"{waiting.app.namespace}.{name}"
                row = await _WEBHOOK.fetchrow(connection, hook)
                webhook = None if row is None else read_definition(hook, row.definition)
                if row is None or webhook is None or not row.enabled:
                    why = "it does not exist" if webhook is None else "it is disabled"
                    await connection.execute(
                        _SQL["unheard"], now, str(waiting.app), f"webhook {name} is not notified: {why}"
                    )
                elif webhook.is_for_people:
                    await self._store(connection, queue_of(hook), waiting, lines, now)
                else:
                    if len(lines) > _MOST_EVENTS:
                        lines, following = lines[:_MOST_EVENTS], lines[_MOST_EVENTS].number
                    tasks = [(queue_of(hook), change_task(line, self._pages)) for line in lines]
                    await enqueue(connection, tasks, now, changes=True)
            case ProgramRecipient(program=name):
                program = ProgramRef(waiting.app.namespace, waiting.app.app, name)
                await self._start(connection, program, lines, now)
            case _:
                assert_never(waiting.recipient)
        return lines, following

    async def _store(
        self, connection: Connection, queue: str, waiting: WaitingRecipient, lines: Sequence[WorkLine], now: datetime
    ) -> None:
        request = notice_task(lines, self._pages, lane=waiting.id[-_LANE:], recipient=waiting.id)
        await enqueue(connection, [(queue, request)], now, changes=True)

    async def _start(
        self, connection: Connection, program: ProgramRef, lines: Sequence[WorkLine], now: datetime
    ) -> None:
        """Starts a program once, with what happened last and how much happened as arguments."""
        definition = await connection.fetchval(RUNS["lock_program"], str(program))
        if definition is None:
            why = f"program {program.name} is not started: it was removed"
            await connection.execute(_SQL["unheard"], now, str(program.owner), why)
            return
        last = lines[-1]
        shown = notification_of(orjson.loads(event_of(last, self._pages)))
        facts = {
            "count": str(len(lines)),
            "subjects": ",".join(dict.fromkeys(line.subject for line in lines[-MOST_SHOWN:])),
            "kind": last.change,
            "subject": last.subject,
            "at": last.at.isoformat(),
            "headline": shown.headline,
            "reason": last.reason,
            "link": shown.link,
            "log_tail": shown.log_tail,
        }
        name, why = f"on-failure-{lines[0].id}", f"{len(lines)} failures of its app, the last one: {shown.headline}"
        await manual_runs.answer(connection, program, definition, name, facts, prefix=_PREFIX, why=why, now=now)
