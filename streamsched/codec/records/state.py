"""A schedule's state as stored in the changelog: versioned, each event once, without empty leaves.

{"v": 3, "schedule": text, "generation": n, "enabled": bool, "keeping"?: true, "trigger": {CDAP's shape},
 "consumption"?: "paired" or "latest", "late"?: {…}, "sequence": n, "lost"?: n, "dropped"?: n,
 "refused"?: n, "keyless"?: n, "keylessWhy"?: text, "cell": {see `codec.records.cell`}}

A schedule that correlates has no `cell` here; each open key has its own document, `{"v": 3, "generation": n,
"cell": {…}}`. Versions 1 and 2 are of the time before release 0.1.0.

Compatibility: a new field has a default; a field never changes its meaning; any other change is a new `v` with a reader
for every older one, and a writer for the previous one, used until every worker reads the new one (ADR 5). Each
version's golden files in `tests/golden/state/` are kept and tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import boolean, instant, integer, loads, mapping, schedule, sequence, text
from streamsched.codec.records import cell as cells
from streamsched.codec.schedules.policy import LATE, read_late
from streamsched.codec.triggers import trigger as triggers
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.fold.cell import EMPTY, Cell
from streamsched.domain.fold.fold import Definition, TriggerState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger

VERSION: Final = 3
_VERSIONS: Final = (3,)
#: The versions this release can write (see `codec.records.formats`).
WRITTEN: Final = (3,)
#: How states and open keys of the time before release 0.1.0 begin.
_OF_BEFORE: Final = (b'{"v":2,"schedule"', b'{"v":2,"generation"')
#: Separates the parts of a row's key: schedule, open key, page. Does not occur in names and keys.
SEPARATOR: Final = b"\x1f"


def encode(state: TriggerState, *, paged: bool = False, version: int = VERSION) -> bytes:
    """The state as bytes; `decode` returns an equal state. `paged` as in `codec.records.cell.to_json`; `version` is one
    of `WRITTEN`.
    """
    assert version in WRITTEN
    counted = b',"sequence":%d' % state.sequence
    if state.lost:
        counted += b',"lost":%d' % state.lost
    if state.dropped:
        counted += b',"dropped":%d' % state.dropped
    if state.refused:
        counted += b',"refused":%d' % state.refused
    if state.keyless:
        counted += b',"keyless":%d,"keylessWhy":%s' % (state.keyless, dumps(state.keyless_why))
    if state.plan.per is not None:
        return b"".join((_head(state.definition), counted, b"}"))
    cell = dumps(cells.to_json(state.plan, state.cell, paged=paged))
    return b"".join((_head(state.definition), counted, b',"cell":', cell, b"}"))


def decode(raw: bytes, *, pages: cells.Pages | None = None) -> TriggerState:
    """Decodes a state of any known version. A paged one decoded without `pages` has only its newest events; counts are
    complete in any case.

    Raises:
        DecodeError: the bytes are not a state of a known version, or are inconsistent.
    """
    found = mapping(loads(raw), "$")
    _check_version(found)
    late = found.get("late")
    definition = Definition(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        boolean(found.get("enabled"), "$.enabled"),
        trigger(found.get("trigger"), "$.trigger"),
        consumption(found.get("consumption"), "$.consumption"),
        None if late is None else read_late(late, "$.late"),
        "keeping" in found and boolean(found["keeping"], "$.keeping"),
        draining="draining" in found and boolean(found["draining"], "$.draining"),
        backlog="backlog" in found and boolean(found["backlog"], "$.backlog"),
        former=_former(found),
    )
    cell = EMPTY
    if definition.plan.per is None:
        cell = cells.from_json(found.get("cell"), "$.cell", definition.plan, pages=pages)
    counts = (integer(found.get(name, 0), f"$.{name}") for name in ("lost", "dropped", "refused", "keyless"))
    why = text(found["keylessWhy"], "$.keylessWhy") if "keylessWhy" in found else ""
    return TriggerState(definition, integer(found.get("sequence"), "$.sequence"), cell, *counts, keyless_why=why)


def is_of_before(raw: bytes) -> bool:
    """Whether a row of the table is a state or an open key that a release before 0.1.0 wrote."""
    return raw.startswith(_OF_BEFORE)


class StateHeader(NamedTuple):
    """The schedule, generation and sequence of a state."""

    schedule: ScheduleRef
    generation: int
    sequence: int


class KeyHeader(NamedTuple):
    """The generation of an open key's definition, and the number and opening time of its cell."""

    generation: int
    number: int
    opened_at: datetime | None


def peek(raw: bytes) -> StateHeader:
    """Decodes the header only, without definition and cells.

    Raises:
        DecodeError: the header is not that of a state of a known version.
    """
    return _header(mapping(loads(raw), "$"))


def raise_sequence(raw: bytes, sequence: int) -> bytes:
    """The state with its sequence raised to at least `sequence`; the same bytes when it is already.

    Raises:
        DecodeError: as `peek`.
    """
    found = mapping(loads(raw), "$")
    return raw if _header(found).sequence >= sequence else dumps({**found, "sequence": sequence})


def encode_key(definition: Definition, cell: Cell, key: str, *, version: int = VERSION) -> bytes:
    """The document of an open key, without the events of whole pages. `version` as in `encode`."""
    assert version in WRITTEN
    body = cells.to_json(definition.plan, cell, paged=True, key=key)
    return dumps({"v": VERSION, "generation": definition.generation, "cell": body})


def decode_key(raw: bytes, definition: Definition, key: str, *, pages: cells.Pages | None = None) -> Cell | None:
    """Decodes the cell of an open key; None when it is of another generation.

    Raises:
        DecodeError: the bytes are not a key of a known version, or are inconsistent.
    """
    found = mapping(loads(raw), "$")
    _check_version(found)
    if integer(found.get("generation"), "$.generation") != definition.generation:
        return None
    return cells.from_json(found.get("cell"), "$.cell", definition.plan, key=key, pages=pages)


def peek_key(raw: bytes) -> KeyHeader:
    """Decodes the header only of an open key, without its events.

    Raises:
        DecodeError: the header is not that of a key of a known version.
    """
    found = mapping(loads(raw), "$")
    _check_version(found)
    cell = mapping(found.get("cell"), "$.cell")
    opened_at = None if cell.get("opened_at") is None else instant(cell["opened_at"], "$.cell.opened_at")
    return KeyHeader(
        integer(found.get("generation"), "$.generation"), integer(cell.get("number", 0), "$.cell.number"), opened_at
    )


def trigger(value: object, path: str) -> Trigger:
    """Decodes a trigger of a record.

    Raises:
        DecodeError: it is invalid.
    """
    try:
        return triggers.from_json(value, path)
    except DecodeError:
        raise
    except InvalidError as exc:
        raise DecodeError(exc.path, exc.reason) from exc


def consumption_to_json(policy: Consumption) -> dict[str, str]:
    """The field of a policy; empty for the default."""
    return {} if policy is Consumption.CUMULATIVE else {"consumption": policy.value}


def consumption(value: object, path: str) -> Consumption:
    """Decodes the value of that field.

    Raises:
        DecodeError: it is unknown.
    """
    if value is None:
        return Consumption.CUMULATIVE
    for policy in Consumption:
        if policy.value == value:
            return policy
    raise DecodeError(path, f"must be one of {', '.join(Consumption)} but is {text(value, path)!r}")


def _former(found: Mapping[str, Any]) -> tuple[int, int]:
    if "former" not in found:
        return 0, 0
    numbers = [integer(each, f"$.former[{index}]") for index, each in enumerate(sequence(found["former"], "$.former"))]
    if len(numbers) != 2:
        raise DecodeError("$.former", "must be two whole numbers, a generation and a sequence")
    return numbers[0], numbers[1]


def _head(definition: Definition) -> bytes:
    """The fields of the definition, cached in `Definition.encoded`; without the closing brace."""
    if definition.encoded is None:
        head = dumps(
            {
                "v": VERSION,
                "schedule": str(definition.schedule),
                "generation": definition.generation,
                "enabled": definition.enabled,
                **({"keeping": True} if definition.keeping else {}),
                **({"draining": True} if definition.draining else {}),
                **({"backlog": True} if definition.backlog else {}),
                **({"former": list(definition.former)} if definition.former != (0, 0) else {}),
                "trigger": triggers.to_json(definition.trigger),
                **consumption_to_json(definition.consumption),
                **({} if definition.late is None else {"late": LATE.write(definition.late)}),
            }
        )
        object.__setattr__(definition, "encoded", head[:-1])
        return head[:-1]
    return definition.encoded


def _header(found: dict[str, Any]) -> StateHeader:
    _check_version(found)
    return StateHeader(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        integer(found.get("sequence"), "$.sequence"),
    )


def _check_version(found: dict[str, Any]) -> None:
    version = integer(found.get("v"), "$.v", minimum=1)
    if version not in _VERSIONS:
        raise DecodeError("$.v", f"is version {version}; this code knows {' and '.join(map(str, _VERSIONS))}")
