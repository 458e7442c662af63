"""A schedule's accumulation as it is kept in the changelog: versioned, each event once, only leaves that hold any.

    {"v": 1, "schedule": text, "generation": n, "enabled": bool, "sequence": n, "trigger": {CDAP's shape},
     "consumption"?: "paired" or "latest",
     "events": [native event, …], "leaves": {leaf id: {"count": n, "level"?: bytes, "events": [place, …]}, …}}

Rules of change: a new field has a default; a field never changes its meaning; anything else is a new `v` with a reader
for every older one. Each version's golden files stay in `tests/golden/state/` for ever, and are read by the tests.
"""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec import trigger as triggers
from streamsched.codec.native import dumps
from streamsched.codec.roll import Roll, called, read_roll
from streamsched.codec.scalar import boolean, integer, loads, mapping, schedule, text
from streamsched.domain.consumption import Consumption
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.event import Event
from streamsched.domain.fold import Accumulation, TriggerState
from streamsched.domain.trigger import Trigger

VERSION: Final = 1


def encode(state: TriggerState) -> bytes:
    """The state as bytes; `decode` gives back an equal state."""
    roll = Roll()
    kept: dict[str, dict[str, Any]] = {}
    for leaf, has in state.accumulations.items():
        kept[leaf] = {"count": has.count, "events": roll.places(has.events)}
        if has.level is not None:
            kept[leaf]["level"] = has.level
    return dumps(
        {
            "v": VERSION,
            "schedule": str(state.schedule),
            "generation": state.generation,
            "enabled": state.enabled,
            "sequence": state.sequence,
            "trigger": triggers.to_json(state.trigger),
            **consumption_to_json(state.consumption),
            "events": roll.to_json(),
            "leaves": kept,
        }
    )


def decode(raw: bytes) -> TriggerState:
    """The state that was encoded, by this version or an older one.

    Raises:
        DecodeError: these bytes are no state of a version we know, or contradict themselves.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    roll = read_roll(found.get("events"), "$.events")
    leaves = mapping(found.get("leaves"), "$.leaves")
    state = TriggerState(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        boolean(found.get("enabled"), "$.enabled"),
        trigger(found.get("trigger"), "$.trigger"),
        integer(found.get("sequence"), "$.sequence"),
        {leaf: _accumulation(item, roll, f"$.leaves['{leaf}']") for leaf, item in leaves.items()},
        consumption(found.get("consumption"), "$.consumption"),
    )
    for leaf in leaves.keys() - {slot.id for slot in state.plan.slots}:
        raise DecodeError(f"$.leaves['{leaf}']", "is no leaf of the trigger")
    return state


def trigger(value: object, path: str) -> Trigger:
    """A trigger that we wrote ourselves.

    Raises:
        DecodeError: it is none.
    """
    try:
        return triggers.from_json(value, path)
    except DecodeError:
        raise
    except InvalidError as exc:
        raise DecodeError(exc.path, exc.reason) from exc


def consumption_to_json(policy: Consumption) -> dict[str, str]:
    """The field that says a policy; none for the one that went without saying."""
    return {} if policy is Consumption.CUMULATIVE else {"consumption": policy.value}


def consumption(value: object, path: str) -> Consumption:
    """The policy that `consumption_to_json` wrote.

    Raises:
        DecodeError: it is none that we know.
    """
    if value is None:
        return Consumption.CUMULATIVE
    for policy in Consumption:
        if policy.value == value:
            return policy
    raise DecodeError(path, f"must be one of {', '.join(Consumption)} but is {text(value, path)!r}")


def _accumulation(value: object, roll: list[Event], path: str) -> Accumulation:
    found = mapping(value, path)
    level = found.get("level")
    return Accumulation(
        integer(found.get("count"), f"{path}.count"),
        None if level is None else integer(level, f"{path}.level"),
        called(found.get("events"), roll, f"{path}.events"),
    )
