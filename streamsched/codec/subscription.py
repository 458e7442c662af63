"""Who listens to an event key, as the value of table `subscriptions`: `{"<schedule>": generation, …}`."""

from __future__ import annotations

import orjson

from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.subscription import Subscriptions


def encode(subscriptions: Subscriptions) -> bytes:
    """The listeners, in their order; the key is the table's."""
    return orjson.dumps({str(schedule): generation for schedule, generation in subscriptions.listeners.items()})


def decode(key: str, value: bytes) -> Subscriptions:
    """The subscriptions of an event key.

    Raises:
        DecodeError: the bytes are not what `encode` writes.
    """
    try:
        listeners = {ScheduleRef.parse(text): int(generation) for text, generation in orjson.loads(value).items()}
    except (ValueError, TypeError, AttributeError) as exc:
        raise DecodeError("$", f"not the subscriptions of {key}: {value[:80]!r}") from exc
    except InvalidError as exc:
        raise DecodeError(exc.path, exc.reason) from exc
    return Subscriptions(key, listeners)
