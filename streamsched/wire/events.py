"""What the API answers to events that are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import any_text, integer
from streamsched.domain.errors import Refusal

_KEY: Final = "partition:default.flights"


class KeylessEvent(NamedTuple):
    """An event of which something has no key for any schedule that listens. `why`: a sentence that begins with `it`, or
    with the number of its partitions.
    """

    id: Annotated[str, About("e1")]
    key: Annotated[str, About("partition:default.clicks")]
    why: Annotated[str, About("it has no key: hour is missing")]


_REFUSED: Final = JsonShape(
    Refusal, about={"index": About(1), "path": About("$.data.dataset"), "reason": About("must be text")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedEvents:
    """Events that the log has acknowledged.

    Attributes:
        events: how many.
        errors: the first that were refused; `refused`: how many were, if these are not all.
        unheard: the event keys that no schedule listens to; None: that was not known in time.
        keyless: those of the first 20 events that have no key.
    """

    events: Annotated[int, About(name="accepted")]
    ids: Annotated[Sequence[str], About("e1")]
    errors: Annotated[Sequence[Refusal], About(shape=_REFUSED)]
    unheard: Annotated[Sequence[str] | None, About(_KEY)] = ()
    keyless: Annotated[Sequence[KeylessEvent], About(shape=JsonShape(KeylessEvent))] = ()
    refused: Annotated[int, About(2000, "All, when `errors` lists only the first.")] = 0


ACCEPTED: Final = JsonShape(AcceptedEvents, sometimes=("unheard", "keyless", "refused"))
#: A problem that names the events of a request of which none was accepted.
REFUSED: Final = NamedSchema(
    "RefusedEvents",
    lambda: {
        "type": "object",
        "description": "A problem with the members of the answer to accepted events.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": any_text("urn:streamsched:problem:bad-request"),
            "title": any_text("Bad Request"),
            "status": integer(400),
            "detail": any_text("no event was accepted: $.data.dataset: must be text"),
            **{name: ACCEPTED.answer_schema()["properties"][name] for name in ("accepted", "errors", "refused")},
        },
    },
)
