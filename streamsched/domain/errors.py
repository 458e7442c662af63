"""The exception hierarchy.

    StreamschedError
    ├── InvalidError                  the caller's input is wrong; a retry cannot help
    │   ├── DecodeError               bytes or JSON that cannot be decoded; carries path and reason
    │   ├── RefusedError              some events of a batch were refused, the others accepted; carries the refusals
    │   └── InvalidDefinitionError    a definition that cannot hold (0 partitions, a cron that never matches, …)
    ├── TooLargeError                 a record, or a batch, is larger than the log accepts
    ├── NotFoundError                 the named thing does not exist
    ├── ConflictError                 the thing exists already, or is in a state that forbids the request
    │   ├── PlanChangedError          what a confirmed plan was made from has changed; plan again
    │   ├── AttemptFencedError        a later attempt of the job has fenced; this one commits no more
    │   ├── RevisionChangedError      the thing has another revision than the caller read; read it again
    │   └── IllegalTransitionError    a state machine has no transition for the fact
    ├── UnauthenticatedError          the request has no valid token
    ├── ForbiddenError                the caller has no permission for it
    ├── QuotaExceededError            a namespace would have more than an admin allows it
    │   ├── RateExceededError         … now; it may again later
    │   └── BodyExceededError         … in one request
    ├── BacklogExceededError          events of a namespace wait too long already for more to be taken now
    ├── FencedError                   a newer owner has taken over; this one must stop and restart from the log
    ├── UnavailableError              a remote system cannot be reached; a retry may help
    └── ConfigurationError            the installation is wrong: missing Java, a port in use, a topic of another shape

`retriable` says whether a retry can help. Details are attributes; the message is derived from them. Vendor errors are
translated at the boundary and raised `from` their cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

#: Characters of a message that are kept.
_MESSAGE: Final = 1000


class StreamschedError(Exception):
    """Base class of the errors this product raises.

    Attributes:
        retry_after: seconds until a retry may help, where that is known.
    """

    retriable: ClassVar[bool] = False
    retry_after: int | None = None


class InvalidError(StreamschedError):
    """The caller's input is wrong.

    Attributes:
        path: the position in the input, as a JSON path such as `$.trigger.triggers[1].count`.
        reason: what is wrong there, for the user.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class ClosedDayError(InvalidError):
    """What is asked for is of a day that a calendar closes."""


class DecodeError(InvalidError):
    """Bytes or JSON that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the event at `index` of a batch was refused: path within the event, and reason."""

    index: int
    path: str
    reason: str


class RefusedError(InvalidError):
    """Events of a batch were refused for their content; the others were accepted.

    Attributes:
        refusals: at least one, by index.
        accepted: number of accepted events.
    """

    def __init__(self, refusals: Sequence[Refusal], accepted: int) -> None:
        first, *others = refusals
        path = f"$[{first.index}]{first.path.removeprefix('$')}"
        super().__init__(path, first.reason + (f" (and {len(others)} more refused)" if others else ""))
        self.refusals = tuple(refusals)
        self.accepted = accepted


class InvalidDefinitionError(InvalidError):
    """A definition that can never hold or contradicts itself."""


class TooLargeError(StreamschedError):
    """A record for `topic` has `size` bytes, more than the `limit` of the log; nothing was appended. `together`: not a
    single record is too large, but a whole transaction, most of it for `topic`.
    """

    def __init__(self, topic: str, size: int, limit: int, *, together: bool = False) -> None:
        what = f"what goes together, most of it to topic '{topic}'," if together else f"a record for topic '{topic}'"
        super().__init__(f"{what} has {size} bytes, more than the {limit} the log takes")
        self.topic = topic
        self.size = size
        self.limit = limit


def storable_text(text: str) -> str:
    """A text that PostgreSQL and JSON can store: shortened, without NUL and lone surrogates."""
    return text[:_MESSAGE].replace("\0", "\ufffd").encode(errors="backslashreplace").decode()


def describe_failure(failure: BaseException) -> str:
    """A storable description of an exception: the message of a `StreamschedError`, class and message of others."""
    message = storable_text(str(failure))
    if isinstance(failure, StreamschedError):
        return message
    return f"{type(failure).__name__}: {message}" if message else type(failure).__name__


class NotFoundError(StreamschedError):
    """`kind` `name` does not exist. `hint`: where to find what does, for people."""

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(f"{kind} '{name}' was not found" + (f"; {hint}" if hint else ""))
        self.kind = kind
        self.name = name


class ConflictError(StreamschedError):
    """The object exists already, or its state forbids the request."""


class PlanChangedError(ConflictError):
    """A change was confirmed by its plan, but the plan is outdated; nothing was changed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has changed since this was planned; nothing was changed: plan it again")
        self.what = what


class AttemptFencedError(ConflictError):
    """A later attempt of a job has fenced this one; nothing was committed.

    Attributes:
        fence: the later attempt.
    """

    def __init__(self, job: str, attempt: int, fence: int) -> None:
        super().__init__(
            f"attempt {attempt} of job {job} was fenced by attempt {fence}, so it commits no more; this commit was not "
            "made"
        )
        self.job = job
        self.attempt = attempt
        self.fence = fence


class RevisionChangedError(ConflictError):
    """The thing no longer has a revision that the caller expects; nothing was changed.

    Attributes:
        what: the thing, for people.
        revision: the one it has; None: it does not exist.
    """

    def __init__(self, what: str, revision: str | None) -> None:
        state = "does not exist" if revision is None else f"has changed: its revision is now {revision}"
        super().__init__(f"{what} {state}; nothing was changed: read it again")
        self.what = what
        self.revision = revision


class IllegalTransitionError(ConflictError):
    """A state machine has no transition for this fact; the state is unchanged."""

    def __init__(self, machine: str, state: str, fact: str) -> None:
        super().__init__(f"a {machine} in state {state} has no transition for '{fact}'")
        self.machine = machine
        self.state = state
        self.fact = fact


class UnauthenticatedError(StreamschedError):
    """The request does not prove who sends it; the message says what is wrong with its token."""


class ForbiddenError(StreamschedError):
    """The caller has no permission for the request; the message names what is missing."""


class QuotaExceededError(StreamschedError):
    """A namespace would have more than one of its quotas allows; nothing was changed.

    Attributes:
        quota: its name.
        limit: what an admin set.
        used: what is in use without the request.
        wanted: what the request would add.
    """

    def __init__(
        self, namespace: str, quota: str, limit: int, *, used: float, wanted: int, message: str | None = None
    ) -> None:
        super().__init__(
            message
            or f"quota {quota} of namespace '{namespace}' is {limit}: {used:.0f} in use, and this would add {wanted}"
        )
        self.namespace = namespace
        self.quota = quota
        self.limit = limit
        self.used = used
        self.wanted = wanted


class RateExceededError(QuotaExceededError):
    """A namespace has sent more events than its quota allows; `retry_after`: seconds until it may send some again."""

    retriable: ClassVar[bool] = True

    def __init__(self, namespace: str, quota: str, limit: int, *, used: float, wanted: int, retry_after: int) -> None:
        message = (
            f"quota {quota} of namespace '{namespace}' is {limit}: about {used:.0f} a second were accepted lately, and "
            f"none is left for {'this event' if wanted == 1 else f'these {wanted}'}; try again in {retry_after} s"
        )
        super().__init__(namespace, quota, limit, used=used, wanted=wanted, message=message)
        self.retry_after = retry_after


class BacklogExceededError(StreamschedError):
    """Records of a namespace wait longer than new events are taken for it; `retry_after`: seconds until to try again.

    Attributes:
        namespace: which.
        age_s: how long the first has waited.
    """

    retriable: ClassVar[bool] = True

    def __init__(self, namespace: str, *, age_s: float, limit_s: float, retry_after: int) -> None:
        super().__init__(
            f"events of namespace '{namespace}' wait for {age_s:.0f} s already, and new ones are taken up to "
            f"{limit_s:.0f} s; try again in {retry_after} s"
        )
        self.namespace = namespace
        self.age_s = age_s
        self.retry_after = retry_after


class BodyExceededError(QuotaExceededError):
    """The body of a request is larger than the namespace allows; `wanted`: its size, as far as it was read."""

    def __init__(self, namespace: str, quota: str, limit: int, *, wanted: int) -> None:
        message = (
            f"the body is larger than {limit} bytes, the quota {quota} of namespace '{namespace}'; send less in each "
            "request"
        )
        super().__init__(namespace, quota, limit, used=0, wanted=wanted, message=message)


class FencedError(StreamschedError):
    """A newer owner of `name` has taken over; the state in this process's memory is outdated."""

    def __init__(self, name: str) -> None:
        super().__init__(f"writer '{name}' was fenced by a newer owner")
        self.name = name


class UnavailableError(StreamschedError):
    """A remote system cannot be reached now."""

    retriable: ClassVar[bool] = True


class ConfigurationError(StreamschedError):
    """The installation or its settings are wrong; the message says what to change."""


#: Errors that concern the installation or another owner, not the row being processed: loops that quarantine failing
#: rows re-raise these.
SYSTEMIC: Final = (UnavailableError, FencedError, ConfigurationError)
