"""Whom a DAG has mailed of its failures: recipients of the app.

Airflow mails a task's `email` when its last try has failed, unless `email_on_failure` is false, and when it is tried
again, unless `email_on_retry` is.
"""

from __future__ import annotations

import re
from typing import Any, Final

from streamsched.dialects.airflow.codec.source.keywords import Keywords
from streamsched.dialects.airflow.codec.source.literal import UnreadableError
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.notices.recipient import MOST_RECIPIENTS, MOST_SCHEDULES, MailRecipient

_BETWEEN: Final = re.compile(r"[,;]\s*|\s+")


class MailReader:
    """The recipients of one DAG, gathered from its tasks."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, ...], list[str]] = {}
        self._number = 0
        self._recipients = 0

    def read(self, task: str, keywords: Keywords) -> None:
        """Notes whom a task has mailed, and says of its keywords what became of them."""
        self._number += 1
        try:
            to, failures, retries = (keywords.value(name) for name in ("email", "email_on_failure", "email_on_retry"))
            addresses = _addresses(to)
            if addresses:
                MailRecipient(to=addresses)
        except (UnreadableError, InvalidDefinitionError) as exc:
            why = exc.text if isinstance(exc, UnreadableError) else exc.reason
            for name in ("email", "email_on_failure", "email_on_retry"):
                keywords.refuse(name, f"no mail is sent: {why}")
            return
        if not addresses:
            for name in ("email", "email_on_failure", "email_on_retry"):
                keywords.carry(name, "there is no address")
            return
        if failures is False:
            keywords.carry("email_on_failure", "failures are not mailed")
            keywords.change("email", "is for failures only, which are not mailed")
        elif self._add(task, addresses):
            text = "mail by `onFailure` of the app, where STREAMSCHED_MAIL_TO permits it"
            keywords.change("email", f"{text}; not of retries") if retries is None else keywords.carry("email", text)
            keywords.carry("email_on_failure", "the last failure of a job is mailed")
        else:
            for name in ("email", "email_on_failure"):
                keywords.refuse(name, f"an app has at most {MOST_RECIPIENTS} recipients")
        if retries is False:
            keywords.carry("email_on_retry", "retries are not mailed")
        else:
            keywords.refuse("email_on_retry", "retries are not mailed, only the last failure is")

    def _add(self, task: str, addresses: tuple[str, ...]) -> bool:
        """False: an app has no more recipients, each for so many tasks."""
        tasks = self._tasks.setdefault(addresses, [])
        if len(tasks) % MOST_SCHEDULES == 0:
            if self._recipients == MOST_RECIPIENTS:
                return False
            self._recipients += 1
        tasks.append(task)
        return True

    def recipients(self) -> list[dict[str, Any]]:
        """As `onFailure` of an app file: for all tasks, or for those that have the addresses."""
        found: list[dict[str, Any]] = []
        for addresses, tasks in self._tasks.items():
            mail = {"mail": list(addresses)}
            if len(tasks) == self._number:
                return [mail]
            found += (
                {**mail, "schedules": tasks[begin : begin + MOST_SCHEDULES]}
                for begin in range(0, len(tasks), MOST_SCHEDULES)
            )
        return found


def _addresses(to: Any) -> tuple[str, ...]:
    """The addresses of a keyword: a list, or a text in which commas, semicolons or spaces are between them.

    Raises:
        InvalidDefinitionError: it is neither.
    """
    if not to:
        return ()
    texts: list[Any] = [*to] if isinstance(to, list | tuple | set) else [to]
    if not all(isinstance(each, str) for each in texts):
        raise InvalidDefinitionError("$.mail", "it is no text and no list of texts")
    parts = (part for each in texts for part in _BETWEEN.split(each.strip()))
    return tuple(dict.fromkeys(part for part in parts if part))
