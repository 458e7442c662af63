"""Who is notified of the failures of an app, as JSON: `{"mail": ["team@example.org"]}`, `{"webhook": "oncall"}` or
`{"program": "rescue"}`, each with `"schedules": ["daily"]`, and the first two with `"recovered": true`.
"""

from __future__ import annotations

from typing import Any, assert_never

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.errors import DecodeError
from streamsched.domain.notices.recipient import MailRecipient, ProgramRecipient, Recipient, WebhookRecipient

_KINDS = ("mail", "webhook", "program")


def recipient_to_json(recipient: Recipient) -> dict[str, Any]:
    """The canonical JSON."""
    given: dict[str, Any]
    match recipient:
        case MailRecipient(to=to):
            given = {"mail": list(to)}
        case WebhookRecipient(webhook=name):
            given = {"webhook": name}
        case ProgramRecipient(program=name):
            given = {"program": name}
        case _:
            assert_never(recipient)
    if recipient.schedules:
        given["schedules"] = sorted(recipient.schedules)
    if recipient.recovered:
        given["recovered"] = True
    return given


def recipient_from_json(obj: object, path: str = "$") -> Recipient:
    """Raises:
    DecodeError, InvalidDefinitionError: with the path of the field.
    """
    fields = Fields(obj, path)
    kinds = [kind for kind in _KINDS if fields.has(kind)]
    if len(kinds) != 1:
        raise DecodeError(path, f"must have one of {', '.join(_KINDS)}")
    schedules = frozenset(fields.text_list("schedules"))
    recovered = fields.optional_boolean("recovered") is True
    recipient: Recipient
    with prefix_errors(path):
        match kinds[0]:
            case "mail":
                to = tuple(dict.fromkeys(fields.text_list("mail")))
                recipient = MailRecipient(to=to, schedules=schedules, recovered=recovered)
            case "webhook":
                name = fields.text("webhook")
                recipient = WebhookRecipient(webhook=name, schedules=schedules, recovered=recovered)
            case _:
                name = fields.text("program")
                recipient = ProgramRecipient(program=name, schedules=schedules, recovered=recovered)
    fields.check_all_read()
    return recipient
