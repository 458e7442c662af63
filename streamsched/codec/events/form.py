"""A form of events of another product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from streamsched.domain.events.event import Event


class EventForm(NamedTuple):
    """How its events are read.

    Attributes:
        name: of one of them, in texts for people.
        recognises: whether an object is one.
        from_json: decodes it: the object, its path, `fallback_id` and `fallback_time` as of `codec.event.decode`. It
            raises DecodeError.
    """

    name: str
    recognises: Callable[[Mapping[str, Any]], bool]
    from_json: Callable[..., Event]
