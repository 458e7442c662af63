"""What a shard remembers of barriers, as the value of a reserved record of its triggers changelog."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from streamsched.codec.json.scalar import boolean, integer, loads, mapping, sequence
from streamsched.codec.records import barrier as barrier_codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.barrier import Barrier, Round
from streamsched.stream.turn import Positions, positions_from_json, positions_to_json

VERSION: Final = 1


class Passing(NamedTuple):
    """A barrier that a shard was asked for, and how far it has to forward public records before it passes it on."""

    barrier: Barrier
    ends: Positions


class BarrierState(NamedTuple):
    """What a shard remembers of barriers.

    Attributes:
        number: of its latest round.
        round: the one in flight.
        passing: the barriers of others that it has not passed on yet.
    """

    number: int = 0
    round: Round | None = None
    passing: tuple[Passing, ...] = ()


def encode(state: BarrierState) -> bytes:
    """As JSON: `{"v": 1, "number": n, "round"?: {…, "missing": n, "lapsed": bool, "singly": bool}, "passing": [{…,
    "ends": positions}, …]}`, each with the fields of its barrier.
    """
    found: dict[str, Any] = {
        "v": VERSION,
        "number": state.number,
        "passing": [
            {**barrier_codec.to_json(each.barrier), "ends": positions_to_json(each.ends)} for each in state.passing
        ],
    }
    if state.round is not None:
        barrier, missing, lapsed, singly = state.round
        found["round"] = {**barrier_codec.to_json(barrier), "missing": missing, "lapsed": lapsed, "singly": singly}
    return orjson.dumps(found)


def decode(raw: bytes, *, shards: int) -> BarrierState:
    """What `encode` wrote.

    Raises:
        DecodeError: the bytes are not that, or of an unknown version.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    now = None
    if "round" in found:
        fields = mapping(found["round"], "$.round")
        missing = integer(fields.get("missing"), "$.round.missing")
        lapsed, singly = (boolean(fields.get(name), f"$.round.{name}") for name in ("lapsed", "singly"))
        now = Round(barrier_codec.from_json(fields, "$.round", shards=shards), missing, lapsed, singly)
    passing = tuple(
        Passing(barrier_codec.from_json(fields, "$.passing", shards=shards), positions_from_json(fields.get("ends")))
        for fields in (mapping(each, "$.passing") for each in sequence(found.get("passing"), "$.passing"))
    )
    return BarrierState(integer(found.get("number"), "$.number"), now, passing)
