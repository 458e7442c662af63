"""A policy for late events as JSON: `{"after": "15m", "then": "accept", "drop" or "side"}`, or `"15m"` to drop them."""

from __future__ import annotations

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.time.duration import duration_text, parse_duration


def to_json(late: Late) -> dict[str, str]:
    """The canonical JSON."""
    return {"after": duration_text(late.after), "then": late.then.value}


def from_json(obj: object, path: str = "$") -> Late:
    """Raises:
    DecodeError: a field is missing, unknown or of the wrong kind; the path names it.
    InvalidDefinitionError: `after` is not positive.
    """
    if isinstance(obj, str):
        with prefix_errors(path, after=""):
            return Late(parse_duration(obj, "$"))
    fields = Fields(obj, path)
    after = fields.duration("after")
    then = fields.optional_choice("then", OnLate) or OnLate.DROP
    fields.check_all_read()
    with prefix_errors(path):
        return Late(after, then)
