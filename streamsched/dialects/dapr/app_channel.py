"""How a job reaches an instance of its app.

An app that cannot be reached has not failed: the job is staged and uses up no attempt. A connection that breaks before
the answer is a loss: the tick is delivered again whatever its failure policy, as often as its queue allows
(`maxLosses`), so a job that makes its app crash is not delivered forever.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from streamsched.dialects.dapr.codec.job import DaprJob
from streamsched.domain.errors import InvalidError

#: The longest delivery.
TIMEOUT: Final = timedelta(minutes=5)
#: The longest attempt to connect, in seconds.
CONNECT_S: Final = 2.0
#: Characters of an app's answer that are kept.
REASON: Final = 300
_ADDRESS: Final = re.compile(r"(?:http|grpc)://(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


class JobDeliveryResult(StrEnum):
    """DELIVERED: the app has done the job. UNHANDLED: it has no handler for it (404), which ends the tick, too.
    LOST: the connection broke before the answer. UNREACHABLE: there was no connection.
    """

    DELIVERED = "delivered"
    UNHANDLED = "unhandled"
    FAILED = "failed"
    LOST = "lost"
    UNREACHABLE = "unreachable"


class JobDelivery(NamedTuple):
    """The end of a delivery. `detail`: for people."""

    result: JobDeliveryResult
    detail: str


class AppChannel(Protocol):
    """The way to one instance."""

    async def is_ready(self) -> bool:
        """Whether it can be reached; waits at most a few seconds."""
        ...

    async def deliver(self, job: DaprJob) -> JobDelivery:
        """Delivers a job. Does not raise for what the app does."""
        ...

    async def close(self) -> None:
        """Closes its connections. Idempotent."""
        ...


def check_address(address: str, path: str = "$.app") -> None:
    """Raises:
    InvalidError: it is not `http://host:port` or `grpc://host:port`.
    """
    valid = len(address) <= 300 and _ADDRESS.fullmatch(address) is not None
    if not valid or not 0 < int(address.rpartition(":")[2]) < 65536:
        raise InvalidError(path, f"'{address[:60]}' must be http://host:port or grpc://host:port")
