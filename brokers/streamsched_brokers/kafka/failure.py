"""Kafka's failures: which are transient, how they are retried, and their translation to the port's errors."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from aiokafka import errors as kafka

from streamsched.domain.backoff import double_pause
from streamsched.domain.errors import ConfigurationError, NotFoundError, UnavailableError

_T = TypeVar("_T")

#: Seconds for which a transient failure is retried: longer than the election of a partition's leader takes.
PATIENCE_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.4

#: Failures that may occur while Kafka is unavailable.
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
def translate_errors() -> Iterator[None]:
    """Translates Kafka's errors to those of the port.

    Raises:
        ConfigurationError: Kafka refuses this client or the request; a retry cannot help.
        NotFoundError: no topic can have that name.
        UnavailableError: Kafka cannot be reached, or has no leader or too few replicas now.
    """
    try:
        yield
    except kafka.InvalidTopicError as exc:
        raise NotFoundError("topic", str(exc)) from exc
    except _MISCONFIGURED as exc:
        raise ConfigurationError(f"Kafka refuses this client: {_message(exc)}") from exc
    except AWAY as exc:
        raise UnavailableError(f"Kafka does not answer: {_message(exc)}") from exc


class RetryBudget:
    """Pauses between attempts: doubling, with jitter. It is exhausted `seconds` after the first failure."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self._retries = 0
        self._ends: float | None = None

    async def after(self, failure: BaseException) -> None:
        """Pauses; or raises the failure, when it is not transient or the budget is exhausted."""
        now = asyncio.get_running_loop().time()
        self._ends = now + self._seconds if self._ends is None else self._ends
        if isinstance(failure, _MISCONFIGURED) or not isinstance(failure, AWAY) or now >= self._ends:
            raise failure
        pause = double_pause(_FIRST_PAUSE, self._retries, longest=_LONGEST_PAUSE)
        self._retries += 1
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))


async def retry(
    attempt: Callable[[], Awaitable[_T]],
    *,
    before_next: Callable[[], Awaitable[object]] | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> _T:
    """The result of the first successful `attempt`; awaits `before_next` after each failure. Raises Kafka's errors."""
    budget = RetryBudget(seconds)
    while True:
        try:
            return await attempt()
        except AWAY as failure:
            await budget.after(failure)
        if before_next is not None:
            await before_next()


def _message(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
