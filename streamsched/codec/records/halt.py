"""Halts of schedules as JSON: as stored by the shard, and as shown to users.

{"v": 1, "kind": text, "message"?: text, "signal": text, "at": instant, "generation": n, "release": text, "first": n,
 "parked": n, "attempts"?: n, "judged_from"?: instant}
"""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.events import native
from streamsched.codec.json.scalar import instant, integer, loads, mapping, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.fold.halt import Halt

VERSION: Final = 1


def encode(halt: Halt) -> bytes:
    """The halt as bytes; `decode` returns an equal one."""
    found: dict[str, Any] = {
        "v": VERSION,
        "kind": halt.kind,
        "signal": halt.signal,
        "at": halt.at,
        "generation": halt.generation,
        "release": halt.release,
        "first": halt.first,
        "parked": halt.parked,
    }
    if halt.message:
        found["message"] = halt.message
    if halt.attempts:
        found["attempts"] = halt.attempts
    if halt.judged_from is not None:
        found["judged_from"] = halt.judged_from
    return native.dumps(found)


def decode(raw: bytes) -> Halt:
    """Decodes a halt.

    Raises:
        DecodeError: the bytes are not a halt of a known version.
    """
    return from_json(loads(raw))


def from_json(value: object) -> Halt:
    """As `decode`, from a parsed JSON value.

    Raises:
        DecodeError: it is not a halt of a known version.
    """
    found = mapping(value, "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    judged_from = found.get("judged_from")
    return Halt(
        kind=text(found.get("kind"), "$.kind"),
        message=text(found["message"], "$.message") if "message" in found else "",
        signal=text(found.get("signal"), "$.signal"),
        at=instant(found.get("at"), "$.at"),
        generation=integer(found.get("generation"), "$.generation"),
        release=text(found.get("release"), "$.release"),
        first=integer(found.get("first"), "$.first"),
        parked=integer(found.get("parked"), "$.parked"),
        attempts=integer(found.get("attempts", 0), "$.attempts"),
        judged_from=None if judged_from is None else instant(judged_from, "$.judged_from"),
    )


def to_json(halt: Halt) -> dict[str, Any]:
    """The fields shown to users: the reason, and how many signals are parked."""
    return {
        "kind": halt.kind,
        "message": halt.message,
        "signal": halt.signal,
        "at": halt.at,
        "parked": halt.parked,
        "attempts": halt.attempts,
        "release": halt.release,
    }
