"""The one tree of errors.

    StreamschedError
    ├── InvalidError                  the caller's input is wrong; a retry cannot help
    │   ├── DecodeError               bytes or JSON that say nothing we know; carries path and reason
    │   ├── RefusedError              some events of a batch were refused, the others were taken; says which and why
    │   └── InvalidDefinitionError    a definition that cannot hold (0 partitions, a cron that never matches, …)
    ├── TooLargeError                 a record, or many together, are larger than the log takes; smaller ones go through
    ├── NotFoundError                 the named thing does not exist
    ├── ConflictError                 the thing exists already, or is in a state that forbids the request
    │   └── IllegalTransitionError    a state machine was told a fact it has no row for
    ├── FencedError                   a newer owner writes now; this one must stop (start over from the log)
    ├── UnavailableError              the far end is away; a retry may help
    └── ConfigurationError            the installation is wrong: missing Java, a port in use, a topic of another shape

Every class says by `retriable` whether trying the same again can help. Facts are attributes; the message is derived.
Vendor errors are translated where they enter and always raised `from` their cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class StreamschedError(Exception):
    """Base of everything this product raises on purpose."""

    retriable: ClassVar[bool] = False


class InvalidError(StreamschedError):
    """The caller's input is wrong.

    Attributes:
        path: where in the input, as a JSON path such as `$.trigger.triggers[1].count`.
        reason: what is wrong there, in words a user can act on.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DecodeError(InvalidError):
    """Bytes or JSON that do not decode to anything we know."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the event at `index` of a batch was refused: where in it, and what is wrong there."""

    index: int
    path: str
    reason: str


class RefusedError(InvalidError):
    """Events of a batch were refused for what they say; the others of the batch were taken.

    Attributes:
        refusals: at least one, by index.
        accepted: how many events were taken.
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
    """A record for `topic` has `size` bytes, and the log takes `limit`; nothing was appended. `together`: not one
    record is too large, but all that was to become visible at once, most of it in `topic`."""

    def __init__(self, topic: str, size: int, limit: int, *, together: bool = False) -> None:
        what = f"what goes together, most of it to topic '{topic}'," if together else f"a record for topic '{topic}'"
        super().__init__(f"{what} has {size} bytes, more than the {limit} the log takes")
        self.topic = topic
        self.size = size
        self.limit = limit


class NotFoundError(StreamschedError):
    """`kind` `name` does not exist."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} '{name}' was not found")
        self.kind = kind
        self.name = name


class ConflictError(StreamschedError):
    """The thing exists already, or its state forbids what was asked."""


class IllegalTransitionError(ConflictError):
    """A state machine has no row for this fact; the state is untouched."""

    def __init__(self, machine: str, state: str, fact: str) -> None:
        super().__init__(f"a {machine} that is {state} cannot be told '{fact}'")
        self.machine = machine
        self.state = state
        self.fact = fact


class FencedError(StreamschedError):
    """A newer owner of `name` has taken over; whatever this one holds in memory is no longer the truth."""

    def __init__(self, name: str) -> None:
        super().__init__(f"writer '{name}' was fenced by a newer owner")
        self.name = name


class UnavailableError(StreamschedError):
    """The far end cannot be reached now."""

    retriable: ClassVar[bool] = True


class ConfigurationError(StreamschedError):
    """The installation or its settings are wrong; the message says what to change."""
