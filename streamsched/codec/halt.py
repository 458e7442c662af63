"""Why a schedule is in error, as its shard keeps it and as people read it.

{"v": 1, "kind": text, "message"?: text, "signal": text, "at": instant, "generation": n, "release": text, "first": n,
 "parked": n, "attempts"?: n, "judged_from"?: instant}
"""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec import native
from streamsched.codec.scalar import instant, integer, loads, mapping, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.halt import Halt

VERSION: Final = 1


def encode(halt: Halt) -> bytes:
    """The halt as bytes; `decode` gives back an equal one."""
    said: dict[str, Any] = {
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
        said["message"] = halt.message
    if halt.attempts:
        said["attempts"] = halt.attempts
    if halt.judged_from is not None:
        said["judged_from"] = halt.judged_from
    return native.dumps(said)


def decode(raw: bytes) -> Halt:
    """What `encode` wrote.

    Raises:
        DecodeError: these bytes are no halt of a version we know.
    """
    return from_json(loads(raw))


def from_json(value: object) -> Halt:
    """The same of what was read already.

    Raises:
        DecodeError: it is none of a version we know.
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
    """For people: the reason, and how much waits."""
    return {
        "kind": halt.kind,
        "message": halt.message,
        "signal": halt.signal,
        "at": halt.at,
        "parked": halt.parked,
        "attempts": halt.attempts,
        "release": halt.release,
    }
