"""Catch-up bounds as JSON: `{"window": "6h" or null, "atMost": n, "spacing": "30s"}`."""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.time.duration import duration_text, parse_duration


def to_json(bounds: CatchUp) -> dict[str, Any]:
    """The canonical JSON."""
    window = None if bounds.window is None else duration_text(bounds.window)
    return {"window": window, "atMost": bounds.at_most, "spacing": duration_text(bounds.spacing)}


def from_json(fields: Fields) -> CatchUp:
    """Decodes the bounds; missing fields have their defaults.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    window, spacing = fields.optional_text("window"), fields.optional_text("spacing")
    at_most = fields.optional_integer("atMost")
    fields.check_all_read()
    with prefix_errors(fields.path, at_most="atMost"):
        return CatchUp(
            None if window is None else parse_duration(window, "$.window"),
            UNBOUNDED.at_most if at_most is None else at_most,
            UNBOUNDED.spacing if spacing is None else parse_duration(spacing, "$.spacing"),
        )
