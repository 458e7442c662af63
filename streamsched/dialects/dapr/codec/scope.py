"""The scope of jobs: a namespace and an app id. That of actor reminders: a namespace and an actor type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streamsched.domain.errors import InvalidError

_NAMESPACE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}")
_APP: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True)
class DaprApp:
    """An app; two apps may use the same name of a job.

    >>> DaprApp("default", "orders").queue
    'dapr.default.orders'

    Raises:
        InvalidError: the namespace or the app id is invalid.
    """

    namespace: str
    app: str

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidError(
                "$.namespace", "must be 1 to 63 letters, digits, '_' and '-', beginning with a letter or digit"
            )
        if not _APP.fullmatch(self.app):
            raise InvalidError(
                "$.app", "must be 1 to 128 letters, digits, '_', '.' and '-', beginning with a letter or digit"
            )

    @property
    def queue(self) -> str:
        """The queue of its jobs. A namespace has no dot, so no two apps share one."""
        return f"dapr.{self.namespace}.{self.app}"

    @property
    def label(self) -> str:
        """For people."""
        return f"Dapr app {self.app}"


@dataclass(frozen=True, slots=True)
class ActorType:
    """A type of actors, whose reminders any app that hosts it gets.

    >>> ActorType("default", "cart").queue
    'dapr-actor.default.cart'

    Raises:
        InvalidError: the namespace or the type is invalid.
    """

    namespace: str
    type: str

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidError("$.namespace", "must be 1 to 63 letters, digits, '_' and '-'")
        if not _APP.fullmatch(self.type):
            raise InvalidError("$.type", "must be 1 to 128 letters, digits, '_', '.' and '-'")

    @property
    def queue(self) -> str:
        """The queue of the reminders of its actors."""
        return f"dapr-actor.{self.namespace}.{self.type}"

    @property
    def label(self) -> str:
        """For people."""
        return f"Dapr actors of type {self.type}"

    @staticmethod
    def job_name(actor: str, reminder: str) -> str:
        """The name of the job that a reminder is.

        Raises:
            InvalidError: the actor's id is empty or has `||`.
        """
        if not actor or "||" in actor:
            raise InvalidError("$.id", "must not be empty nor contain '||'")
        return f"{actor}||{reminder}"

    @staticmethod
    def reminder(job_name: str) -> tuple[str, str]:
        """The actor's id and the reminder's name of such a job."""
        actor, _, reminder = job_name.partition("||")
        return actor, reminder


DaprScope = DaprApp | ActorType
