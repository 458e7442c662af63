"""Pauses as JSON: `{"mode": "keep", "until": "2026-03-01T06:00:00Z", "note": "disks are moved"}`. All is optional.

`mode` is `keep` (default), `drop`, `drain` or `backlog` (`domain.schedules.pause`). `"keep": false` means mode `drop`,
as before there were modes. Written beside `mode` is `keep`: whether the accumulation and the waiting jobs stay.

`until` may also be a duration such as `2h`, counted from now.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from streamsched.codec.json.reading import Fields, instant
from streamsched.codec.shape import schemas
from streamsched.codec.shape.about import REASON
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.schedules.pause import ACTIVITIES, Pause, PauseMode
from streamsched.domain.time.duration import parse_duration

PAUSE: Final = schemas.record(
    {},
    {
        "mode": schemas.choice(PauseMode),
        "keep": schemas.boolean(),
        "until": schemas.one_of(schemas.instant(), schemas.duration("2h")),
        "note": schemas.text("disks are moved"),
    },
)
#: With why.
REQUEST: Final = NamedSchema(
    "PauseRequest",
    schemas.extend(PAUSE, schemas.record({}, {"reason": schemas.text(REASON.example, about=REASON.text)})),
)


def from_json(obj: object, path: str = "$", *, now: datetime) -> Pause:
    """Decodes a pause requested at `now` (UTC).

    Raises:
        InvalidError: a field is of the wrong kind or unknown, `keep` contradicts `mode`, or `until` is past; the path
            names it.
    """
    fields = Fields(obj, path)
    until = fields.optional_text("until")
    pause = Pause(
        _mode(fields),
        None if until is None else _end(until, fields.path_of("until"), now),
        fields.optional_text("note") or "",
    )
    fields.check_all_read()
    pause.check(now)
    return pause


def _mode(fields: Fields) -> PauseMode:
    mode, keep = fields.optional_choice("mode", PauseMode), fields.optional_boolean("keep")
    if mode is None:
        return PauseMode.DROP if keep is False else PauseMode.KEEP
    if keep is not None and keep != ACTIVITIES[mode].keeps:
        raise DecodeError(fields.path_of("keep"), f"is {str(keep).lower()}, which mode '{mode}' is not; leave it out")
    return mode


def _end(text: str, path: str, now: datetime) -> datetime:
    if text[:4].isdigit() and text[4:5] == "-":
        return instant(text, path)
    try:
        return now + parse_duration(text, path)
    except InvalidError as exc:
        raise InvalidError(
            path, f"must be an instant such as 2026-03-01T06:00:00Z, or a duration: {exc.reason}"
        ) from exc
    except OverflowError as exc:
        raise InvalidError(path, f"{text} from now is beyond the calendar") from exc
