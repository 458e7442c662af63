"""A webhook: a target that is sent changes of jobs and runs of one namespace."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import LONGEST_NAME, abridge, check_duration, check_most
from streamsched.domain.names import ProgramRef, ScheduleRef, check_namespace, check_queue_name
from streamsched.domain.programs.secret import Secret
from streamsched.domain.tasks.queue import LONGEST_WEBHOOK, HttpTarget, QueuePolicy, WebhookTarget
from streamsched.domain.tasks.task_retry import BackoffRetry
from streamsched.domain.webhooks.change import FAILURE, GROUPS, OTHERS, RECOVERY, STATES, WorkLine, changes_of
from streamsched.domain.webhooks.form import EventMode, WebhookFormat

#: The most webhooks of an installation: each has a queue of tasks, and a target that hangs holds `AT_ONCE` deliveries.
MOST_WEBHOOKS: Final = 100
#: Deliveries to one target at a time, each of another schedule.
AT_ONCE: Final = 10
#: Changes in the queue of a webhook at most; those after them stay in the history until there is room.
MOST_QUEUED: Final = 1000
#: A webhook for people gets at most one message in so long, which has all that happened meanwhile.
PACE: Final = timedelta(minutes=1)
#: Changes that one message counts at most; those after them go into the next.
MOST_COUNTED: Final = 10_000
#: A webhook is disabled when its target has accepted nothing for so long, while changes waited for it.
GIVE_UP_AFTER: Final = timedelta(days=3)
#: Wait after a failure: doubles from `delay` to `longest`. With jitter the last attempt is after 80 hours at the
#: earliest, so a target that accepts nothing is disabled before a change is given up.
RETRY: Final = BackoffRetry(retries=170, delay=timedelta(seconds=5), longest=timedelta(hours=1), jitter=0.5)
#: For so long the secret before the last one signs beside it, unless its change says otherwise, and at most.
OLD_SECRET: Final = timedelta(days=1)
LONGEST_OLD_SECRET: Final = timedelta(days=7)
_PREFIX: Final = "webhook."
#: The queue of mail for the recipients of apps. No webhook has it, because ids of webhooks have a dot.
MAIL_QUEUE: Final = f"{_PREFIX}mail"
_MOST_NAMES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The definition of a webhook.

    Attributes:
        changes: those that are sent, such as `run.failed`; `run.*` and `job.*` are all of runs and of jobs, `failure`
            and `recovery` what people are notified of. Empty: all, and of one for people `failure`.
        schedules, programs: only changes of jobs and runs of these; empty: of all.
        secret: reference to the signing secret; None: a generated one.
        timeout: for an answer.
    """

    namespace: str
    name: str
    url: str
    changes: frozenset[str] = frozenset()
    schedules: frozenset[ScheduleRef] = frozenset()
    programs: frozenset[ProgramRef] = frozenset()
    secret: Secret | None = None
    mode: EventMode = EventMode.STRUCTURED
    timeout: timedelta = timedelta(seconds=15)
    format: WebhookFormat = WebhookFormat.CLOUDEVENTS
    _wanted: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        check_queue_name(self.name, "$.name")
        check_most(len(self.queue), LONGEST_NAME, "$.name", "characters with its namespace")
        if "." in self.name:
            raise InvalidDefinitionError("$.name", f"must have no '.' but is {abridge(self.name)}")
        HttpTarget(self.url)
        parts = urlsplit(self.url)
        if parts.username is not None or parts.fragment:
            raise InvalidDefinitionError("$.url", "must have no user name, password or fragment")
        check_duration(self.timeout, "$.timeout", longest=LONGEST_WEBHOOK)
        if not self.changes:
            usual = {FAILURE} if self.is_for_people else GROUPS
            object.__setattr__(self, "changes", frozenset(usual))
        for each in sorted(self.changes - {FAILURE, RECOVERY}):
            if not changes_of(each):
                known = ", ".join((FAILURE, RECOVERY, *GROUPS, *STATES, *OTHERS.values()))
                raise InvalidDefinitionError("$.changes", f"{abridge(each)} is no change; there are {known}")
        for path, refs in (("$.schedules", self.schedules), ("$.programs", self.programs)):
            check_most(len(refs), _MOST_NAMES, path, "names")
            for ref in sorted(refs, key=str):
                if ref.namespace != self.namespace:
                    raise InvalidDefinitionError(path, f"{ref} is not in namespace {self.namespace}")
        if self.mode is EventMode.BINARY and self.is_for_people:
            raise InvalidDefinitionError("$.mode", f"is of CloudEvents, and format is {self.format}")
        wanted = {change for each in self.changes for change in changes_of(each)}
        object.__setattr__(self, "_wanted", frozenset(wanted))

    @property
    def id(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def queue(self) -> str:
        """The name of its queue of tasks."""
        return queue_of(self.id)

    @property
    def is_for_people(self) -> bool:
        """Whether it is sent messages for people."""
        return self.format is not WebhookFormat.CLOUDEVENTS

    def wants(self, line: WorkLine) -> bool:
        """Whether the line is sent."""
        named = line.change in self._wanted
        named = named or (FAILURE in self.changes and line.is_failure)
        named = named or (RECOVERY in self.changes and line.is_recovery)
        if line.namespace != self.namespace or not named:
            return False
        if self.schedules and line.schedule not in _texts(self.schedules):
            return False
        return not self.programs or line.program in _texts(self.programs)


#: The policy of the queue of a webhook. The URL, the secret and the timeout are read with each delivery.
POLICY: Final = QueuePolicy(target=WebhookTarget(), retry=RETRY, dedupe=timedelta(hours=1), max_in_flight=AT_ONCE)

#: The policy of the queue of mail: for two days, each message of a recipient after the one before.
MAIL_POLICY: Final = QueuePolicy(
    target=WebhookTarget(),
    retry=BackoffRetry(retries=60, delay=timedelta(seconds=10), longest=timedelta(hours=1), jitter=0.5),
    dedupe=timedelta(days=1),
    max_in_flight=AT_ONCE,
)


def queue_of(webhook: str) -> str:
    """The queue of a webhook by its id."""
    return f"{_PREFIX}{webhook}"


def is_webhook_queue(queue: str) -> bool:
    """Whether a queue has the name of one of a webhook."""
    return queue.startswith(_PREFIX)


def webhook_of(queue: str) -> str:
    """The id of the webhook of a queue."""
    return queue.removeprefix(_PREFIX)


def _texts(refs: Collection[ScheduleRef] | Collection[ProgramRef]) -> frozenset[str]:
    return frozenset(map(str, refs))
