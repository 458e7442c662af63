"""Forecasts as JSON, for display only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streamsched.domain.ticks.forecast import Forecast, Note


def to_json(forecast: Forecast) -> dict[str, Any]:
    """The JSON of a forecast: instants in UTC, `local` with its offset."""
    return {
        "zone": forecast.zone,
        "ticks": [
            {
                "at": _instant(tick.due_at),
                "local": tick.local.isoformat(),
                "firesAt": _instant(tick.fires_at),
                "notes": [_note(note) for note in tick.notes],
            }
            for tick in forecast.ticks
        ],
        "omitted": [{"day": each.day.isoformat(), **_note(each.note)} for each in forecast.omitted],
    }


def _instant(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _note(note: Note) -> dict[str, str]:
    return {"kind": note.kind.value, "text": note.text}
