"""Barriers as records of topic `signals`: the key is `barrier:<asker>`, the value is JSON.

{"signal": "barrier", "stage": text, "asker": n, "round": n, "homes": [n, …], "frontier": milliseconds}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from streamsched.codec.json.scalar import boolean, integer, loads, mapping, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.barrier import Barrier, Round, Stage

#: The prefix of the record keys of barriers; no event key has it.
PREFIX: Final = b"barrier:"
VERSION: Final = 1

#: By topic and partition, the position after the last record that counts.
Ends = Mapping[tuple[str, int], int]


class Passing(NamedTuple):
    """A barrier that a shard was asked for, and how far it has to forward public records before it passes it on."""

    barrier: Barrier
    ends: Ends


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


def encode(barrier: Barrier) -> tuple[bytes, bytes]:
    """Record key and value."""
    return b"%b%d" % (PREFIX, barrier.asker), orjson.dumps({"signal": "barrier", **_to_json(barrier)})


def decode(value: bytes, *, shards: int) -> Barrier:
    """Decodes the value of a record.

    Raises:
        DecodeError: it is no barrier of an installation with so many shards.
    """
    return _read(mapping(loads(value), "$"), "$", shards)


def encode_state(state: BarrierState) -> bytes:
    """As JSON: `{"v": 1, "number": n, "round"?: {…, "missing": n, "lapsed": bool, "singly": bool},
    "passing": [{…, "ends": [[topic,
    partition, end], …]}, …]}`, each with the fields of its barrier.
    """
    found: dict[str, Any] = {
        "v": VERSION,
        "number": state.number,
        "passing": [
            {**_to_json(each.barrier), "ends": [[*at, end] for at, end in sorted(each.ends.items())]}
            for each in state.passing
        ],
    }
    if state.round is not None:
        now = state.round
        found["round"] = {**_to_json(now.barrier), "missing": now.missing, "lapsed": now.lapsed, "singly": now.singly}
    return orjson.dumps(found)


def decode_state(raw: bytes, *, shards: int) -> BarrierState:
    """What `encode_state` wrote.

    Raises:
        DecodeError: the bytes are not that, or of an unknown version.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    given, now = found.get("round"), None
    if given is not None:
        fields = mapping(given, "$.round")
        missing = integer(fields.get("missing"), "$.round.missing")
        lapsed, singly = (boolean(fields.get(name), f"$.round.{name}") for name in ("lapsed", "singly"))
        now = Round(_read(fields, "$.round", shards), missing, lapsed, singly)
    passing = tuple(
        Passing(_read(mapping(each, "$.passing"), "$.passing", shards), _read_ends(mapping(each, "$.passing")))
        for each in sequence(found.get("passing"), "$.passing")
    )
    return BarrierState(integer(found.get("number"), "$.number"), now, passing)


def _to_json(barrier: Barrier) -> dict[str, Any]:
    stage, asker, number, homes, frontier_ms = barrier
    return {"stage": stage, "asker": asker, "round": number, "homes": homes, "frontier": frontier_ms}


def _read(found: Mapping[str, Any], path: str, shards: int) -> Barrier:
    given = text(found.get("stage"), path, ".stage")
    if given not in list(Stage):
        raise DecodeError(f"{path}.stage", f"must be one of {', '.join(Stage)} but is {given!r}")
    homes = tuple(integer(each, path, ".homes") for each in sequence(found.get("homes"), path, ".homes"))
    asker = integer(found.get("asker"), path, ".asker")
    if max(asker, *homes, 0) >= shards:
        raise DecodeError(path, f"names shard {max(asker, *homes)} of {shards}")
    number, frontier_ms = integer(found.get("round"), path, ".round"), integer(found.get("frontier"), path, ".frontier")
    return Barrier(Stage(given), asker, number, homes, frontier_ms)


def _read_ends(found: Mapping[str, Any]) -> Ends:
    ends: dict[tuple[str, int], int] = {}
    for item in sequence(found.get("ends"), "$.passing.ends"):
        topic, partition, end = _three(sequence(item, "$.passing.ends"))
        ends[text(topic, "$.passing.ends"), integer(partition, "$.passing.ends")] = integer(end, "$.passing.ends")
    return ends


def _three(item: Sequence[Any]) -> Sequence[Any]:
    if len(item) != 3:
        raise DecodeError("$.passing.ends", "must be lists of topic, partition and end")
    return item
