"""The part of an app's builder that says what must be there by which time, and who is notified of failures.

>>> from streamsched import App, mail
>>> app = App("shop", on_failure=mail("team@example.org"))
>>> app.expect("flights", by="08:00", zone="Europe/Berlin", on="MON-FRI").name
'flights'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import time
from typing import Any

from streamsched.codec.json.reading import prefix_errors
from streamsched.codec.schedules.expectation import days_from_json, default_name, schedule_of, time_from_text
from streamsched.define.programs import ProgramBuilder
from streamsched.define.units import check_integer, choice
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.expectations.expectation import Expectation, Frequency
from streamsched.domain.json_value import member_path
from streamsched.domain.names import AppRef, DatasetRef, ExpectationRef, ProgramRef, ScheduleRef
from streamsched.domain.notices.recipient import MailRecipient, ProgramRecipient, Recipient, WebhookRecipient
from streamsched.domain.time.calendar import Calendar

#: An address, what `mail` or `webhook` returns, or a program of the app.
Notified = str | Recipient | ProgramRef


def mail(*to: str, schedules: Iterable[ScheduleRef | str] = (), recovered: bool = False) -> MailRecipient:
    """Mail to these addresses, for `on_failure` of an app.

    Args:
        to: addresses, to which `STREAMSCHED_MAIL_TO` must permit the namespace to send mail.
        schedules: only failures of these schedules of the app. Default: of all, and of what it expects.
        recovered: whether it is also sent that something is well again.

    Raises:
        InvalidDefinitionError: one is no address.
    """
    return MailRecipient(to=to, schedules=_names(schedules), recovered=recovered)


def webhook(name: str, *, schedules: Iterable[ScheduleRef | str] = (), recovered: bool = False) -> WebhookRecipient:
    """A webhook of the app's namespace (`streamsched webhook create`), for `on_failure`; arguments as of `mail`.

    Raises:
        InvalidError: it is no name.
    """
    return WebhookRecipient(webhook=name, schedules=_names(schedules), recovered=recovered)


class ExpectationBuilder(ProgramBuilder):
    """Collects the expectations and the recipients of an app."""

    def __init__(self, ref: AppRef) -> None:
        super().__init__(ref)
        self._expectations: dict[str, Expectation] = {}
        self._recipients: list[Recipient] = []

    def expect(
        self,
        what: str | DatasetRef | ScheduleRef | None = None,
        *,
        by: str | time,
        every: Frequency | str = Frequency.DAY,
        zone: str = "UTC",
        on: str | int | Sequence[str] | None = None,
        calendar: Calendar | None = None,
        schedule: str | None = None,
        partition: str = "",
        key: str = "",
        lag: int = 1,
        then: ProgramRef | str | None = None,
        name: str | None = None,
    ) -> ExpectationRef:
        """Adds an expectation: commits of a dataset, or completed runs of a schedule, are there by a time of each hour,
        day, week or month. A miss is recorded, shown and emitted as event `expectation-missed`, and `on_failure`
        notifies of it. It begins with the next period: one that is added at 07:59 is not missed at 08:00.

        Args:
            what: a dataset by name, or the return value of `schedule`.
            by: time of day such as `"08:00"`, with `every="hour"` a minute such as `":15"`. `"usual"`: the time by
                which it usually is there, from the fifth period on.
            every: `"hour"`, `"day"`, `"week"` or `"month"`.
            zone: IANA zone of the time. Times that a change of the clock skips or repeats are those of `cron`.
            on: with `every="day"` the weekdays, such as `"MON-FRI"` or `["MON", "THU"]` (default: all); with `"week"`
                one of them (default: MON); with `"month"` a day from 1 to 28 (default: 1).
            calendar: it is not due on days that this closes.
            schedule: name of a schedule, instead of `what`.
            partition: the partition that must be there, such as `"day={day}"`: `{year}`, `{month}`, `{week}`, `{day}`,
                `{hour}` of the period's start, or `{start:%Y%m%d}`. Other columns may have any value. Default: any
                commit since the due time before.
            key: of a schedule, the key (`per`) whose run must have completed, as `partition`.
            lag: the period that `partition` or `key` name: 1 is the one that ended last, 0 the one in which it is due.
            then: a program of the app, or its name. A miss starts it, with arguments under `expectation.`.
            name: unique among the app's expectations. Default: the name of the dataset or schedule.
        """
        named = name or str(what or schedule or "")
        path = member_path("$.expectations", named) if named else "$.expectations"
        subject = self._subject(what, schedule, path)
        often = choice(Frequency, every, f"{path}.every")
        if partition and key:
            raise InvalidDefinitionError(f"{path}.key", "is of a schedule, and partition of a dataset")
        if (partition and isinstance(subject, ScheduleRef)) or (key and isinstance(subject, DatasetRef)):
            raise InvalidDefinitionError(
                path, "has a partition of a dataset, or a key of a schedule, and is about the other"
            )
        with prefix_errors(path):
            ref = ExpectationRef(self.ref.namespace, self.ref.app, name or default_name(subject))
        if ref.name in self._expectations:
            raise InvalidDefinitionError(path, "is defined twice; give one of them another name")
        due = by if isinstance(by, time) else time_from_text(by, f"{path}.by")
        with prefix_errors(path):
            self._expectations[ref.name] = Expectation(
                ref,
                subject,
                due,
                often,
                zone,
                calendar=calendar,
                key=partition or key,
                lag=check_integer(lag, "$.lag"),
                program=None if then is None else self._find_program(then).name,
                **days_from_json(on, often, "$.on"),
            )
        return ref

    def on_failure(self, *recipients: Notified) -> None:
        """Notifies addresses, webhooks (`mail`, `webhook`) and programs of the app of its failures: of runs that failed
        with their last attempt, were lost, or ended because they took too long; of missed deadlines and expectations;
        and of schedules that paused themselves. A program is started with arguments under `failure.`.

        Raises:
            InvalidDefinitionError: one is none of these.
        """
        self._recipients += [self._recipient(each) for each in recipients]

    def _recipient(self, given: Any) -> Recipient:
        match given:
            case MailRecipient() | WebhookRecipient() | ProgramRecipient():
                return given
            case ProgramRef():
                return ProgramRecipient(program=given.name)
            case str() if "@" in given:
                return mail(given)
            case _:
                raise InvalidDefinitionError(
                    "$.onFailure", f"must be mail(…), webhook(…) or a program but is {given!r}"
                )

    def _subject(
        self, what: str | DatasetRef | ScheduleRef | None, schedule: str | None, path: str
    ) -> DatasetRef | ScheduleRef:
        if (what is None) == (schedule is None):
            raise InvalidDefinitionError(path, "must name either a dataset or a schedule")
        with prefix_errors(path):
            if schedule is not None:
                return schedule_of(schedule, self.ref)
            return (
                what if isinstance(what, DatasetRef | ScheduleRef) else DatasetRef.parse(str(what), self.ref.namespace)
            )


def _names(schedules: Iterable[ScheduleRef | str]) -> frozenset[str]:
    listed = [schedules] if isinstance(schedules, str) else schedules
    return frozenset(each.name if isinstance(each, ScheduleRef) else each for each in listed)
