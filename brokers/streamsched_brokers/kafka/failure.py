"""What goes wrong between us and Kafka: which of it may pass, and all of it in the port's errors."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from aiokafka import errors as kafka

from streamsched.domain.errors import ConfigurationError, UnavailableError

_T = TypeVar("_T")

#: How long something that may pass is tried again, in seconds: longer than a partition takes to find a new leader.
PATIENCE_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.4

#: What Kafka or the way to it may say while it is away.
AWAY: Final = (kafka.KafkaError, OSError, TimeoutError)
_MISCONFIGURED: Final = (
    kafka.AuthenticationFailedError,
    kafka.AuthenticationMethodNotSupported,
    kafka.ClusterAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.IllegalSaslStateError,
    kafka.IncompatibleBrokerVersion,
    kafka.InvalidConfigurationError,
    kafka.InvalidReplicationFactorError,
    kafka.InvalidTopicError,
    kafka.InvalidTransactionTimeout,
    kafka.PolicyViolationError,
    kafka.SaslAuthenticationFailed,
    kafka.SecurityDisabled,
    kafka.TopicAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
    kafka.UnsupportedCodecError,
    kafka.UnsupportedSaslMechanismError,
    kafka.UnsupportedVersionError,
    ssl.SSLCertVerificationError,
)


@contextmanager
def translated() -> Iterator[None]:
    """Kafka's errors as the port's.

    Raises:
        ConfigurationError: Kafka refuses us or what we ask for; trying again cannot help.
        UnavailableError: it cannot be reached, or has no leader or too few copies now.
    """
    try:
        yield
    except _MISCONFIGURED as exc:
        raise ConfigurationError(f"Kafka refuses us: {_words(exc)}") from exc
    except AWAY as exc:
        raise UnavailableError(f"Kafka does not answer: {_words(exc)}") from exc


class Patience:
    """Pauses between attempts at something that may pass: doubling, and jittered so that not all come back at once.

    It ends `seconds` after the first failure.
    """

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self._pause = _FIRST_PAUSE
        self._ends: float | None = None

    async def after(self, failure: BaseException) -> None:
        """Waits a while; or raises the failure, when it cannot pass or patience is at its end."""
        now = asyncio.get_running_loop().time()
        self._ends = now + self._seconds if self._ends is None else self._ends
        if isinstance(failure, _MISCONFIGURED) or not isinstance(failure, AWAY) or now >= self._ends:
            raise failure
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


async def patiently(
    attempt: Callable[[], Awaitable[_T]],
    *,
    before_next: Callable[[], Awaitable[object]] | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> _T:
    """The first success of `attempt`, with `before_next` after each failure. Raises Kafka's own errors."""
    patience = Patience(seconds)
    while True:
        try:
            return await attempt()
        except AWAY as failure:
            await patience.after(failure)
        if before_next is not None:
            await before_next()


def _words(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
