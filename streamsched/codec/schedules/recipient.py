"""Who is notified of the failures of an app, as JSON: `{"mail": ["team@example.org"]}`, `{"webhook": "oncall"}` or
`{"program": "rescue"}`, each with `"schedules": ["daily"]`, and the first two with `"recovered": true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from streamsched.codec.json.reading import read_object
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import NAME, Schema, drop_members, one_of
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json
from streamsched.domain.notices.recipient import (
    MOST_ADDRESSES,
    MOST_SCHEDULES,
    MailRecipient,
    ProgramRecipient,
    Recipient,
    WebhookRecipient,
)


def _shape(made: type[Recipient], **about: About) -> JsonShape[Any]:
    common = {
        "schedules": About("daily", pattern=NAME, maxItems=MOST_SCHEDULES),
        "recovered": About(text="Whether it is also sent that something is well again."),
    }
    return JsonShape(made, sometimes=("schedules", "recovered"), about={**common, **about})


#: By the member that names them.
_SHAPES: Final[Mapping[str, JsonShape[Any]]] = MappingProxyType(
    {
        "mail": _shape(MailRecipient, to=About("team@example.org", name="mail", minItems=1, maxItems=MOST_ADDRESSES)),
        "webhook": _shape(WebhookRecipient, webhook=About("oncall")),
        "program": _shape(ProgramRecipient, program=About("rescue", pattern=NAME)),
    }
)


def recipient_to_json(recipient: Recipient) -> dict[str, Any]:
    """The canonical JSON."""
    name, shape = next(named for named in _SHAPES.items() if isinstance(recipient, named[1].made))
    written = shape.write(recipient)
    return {name: written[name], **written}


def recipient_from_json(value: Json, path: str = "$") -> Recipient:
    """Raises:
    DecodeError, InvalidDefinitionError: with the path of the field.
    """
    given = read_object(value, path)
    kinds = [kind for kind in _SHAPES if given.get(kind) is not None]
    if len(kinds) != 1:
        raise DecodeError(path, f"must have one of {', '.join(_SHAPES)}")
    return _SHAPES[kinds[0]].read(given, path)


def recipient_schema() -> Schema:
    mail, webhook, program = (each.body_schema() for each in _SHAPES.values())
    return one_of(mail, webhook, drop_members(program, "recovered"))
