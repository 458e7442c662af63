"""The scope of jobs: a namespace and an app id."""

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
