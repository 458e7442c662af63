"""A schedule's state as it is kept in the changelog: versioned, each event once, only leaves that hold any.

{"v": 2, "schedule": text, "generation": n, "enabled": bool, "keeping"?: true, "trigger": {CDAP's shape},
 "consumption"?: "paired" or "latest", "late"?: {…}, "sequence": n, "lost"?: n, "cell": {as `codec.cell` has it}}

A schedule that correlates has no `cell` here; each open key has a document of its own, `{"v": 2, "generation": n,
"cell": {…}}`. Version 1 named leaves by their ids and had no pages, keys and clocks.

Rules of change: a new field has a default; a field never changes its meaning; anything else is a new `v` with a reader
for every older one, and a writer for the one before, which is used until every worker reads the new one (ADR 0055).
Each version's golden files stay in `tests/golden/state/` for ever, and are read by the tests.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from streamsched.codec import cell as cells
from streamsched.codec import lateness
from streamsched.codec import trigger as triggers
from streamsched.codec.native import dumps
from streamsched.codec.roll import called, read_roll
from streamsched.codec.scalar import boolean, integer, loads, mapping, schedule, text
from streamsched.domain.accumulation import Accumulation
from streamsched.domain.arrivals import Arrivals
from streamsched.domain.cell import EMPTY, Cell, cell_of
from streamsched.domain.consumption import Consumption
from streamsched.domain.errors import ConfigurationError, DecodeError, InvalidError
from streamsched.domain.fold import Definition, TriggerState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.trigger import Trigger

VERSION: Final = 2
_VERSIONS: Final = (1, 2)
#: What this release writes: the newest, and that of the release before it, for as long as one of its workers is alive.
WRITTEN: Final = (2,)
#: Stands between the parts of a row's key: schedule, open key, page. No name and no key of ours has it.
SEPARATOR: Final = b"\x1f"


def version_for(reads: int) -> int:
    """The newest version that this release writes and that one reads which reads up to `reads`.

    Raises:
        ConfigurationError: there is none: the releases are too far apart to work together.
    """
    fitting = [version for version in WRITTEN if version <= reads]
    if not fitting:
        raise ConfigurationError(
            f"a worker of an older release reads states up to version {reads}, and this one writes no older than "
            f"{min(WRITTEN)}: upgrade through the releases between them"
        )
    return max(fitting)


def encode(state: TriggerState, *, paged: bool = False, version: int = VERSION) -> bytes:
    """The state as bytes; `decode` gives back an equal state. `paged` as of `codec.cell.to_json`; `version` is one of
    `WRITTEN`.
    """
    assert version in WRITTEN
    counted = b',"sequence":%d' % state.sequence
    if state.lost:
        counted += b',"lost":%d' % state.lost
    if state.plan.per is not None:
        return b"".join((_head(state.definition), counted, b"}"))
    cell = dumps(cells.to_json(state.plan, state.cell, paged=paged))
    return b"".join((_head(state.definition), counted, b',"cell":', cell, b"}"))


def decode(raw: bytes, *, pages: cells.Pages | None = None) -> TriggerState:
    """The state that was encoded, by this version or an older one. Of one that was paged, without `pages`, the newest
    events alone; counts are right in any case.

    Raises:
        DecodeError: these bytes are no state of a version we know, or contradict themselves.
    """
    found = mapping(loads(raw), "$")
    version = _version(found)
    late = found.get("late")
    definition = Definition(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        boolean(found.get("enabled"), "$.enabled"),
        trigger(found.get("trigger"), "$.trigger"),
        consumption(found.get("consumption"), "$.consumption"),
        None if late is None else lateness.from_json(late, "$.late"),
        "keeping" in found and boolean(found["keeping"], "$.keeping"),
    )
    cell = EMPTY
    if version == 1:
        cell = _cell_of_version_1(found, definition)
    elif definition.plan.per is None:
        cell = cells.from_json(found.get("cell"), "$.cell", definition.plan, pages=pages)
    lost = integer(found.get("lost", 0), "$.lost")
    return TriggerState(definition, integer(found.get("sequence"), "$.sequence"), cell, lost)


class Heading(NamedTuple):
    """Whose state it is, and how far its numbers have come."""

    schedule: ScheduleRef
    generation: int
    sequence: int


def peek(raw: bytes) -> Heading:
    """Without definition and cells.

    Raises:
        DecodeError: these bytes are no state of a version we know, as far as was looked.
    """
    return _heading(mapping(loads(raw), "$"))


def numbered(raw: bytes, sequence: int) -> bytes:
    """The same state, whose next job has a number above this; the very bytes when it had so already.

    Raises:
        DecodeError: as `peek`.
    """
    found = mapping(loads(raw), "$")
    return raw if _heading(found).sequence >= sequence else dumps({**found, "sequence": sequence})


def encode_key(definition: Definition, cell: Cell, *, version: int = VERSION) -> bytes:
    """One open key of a schedule that correlates, without what its pages hold. `version` as of `encode`."""
    assert version in WRITTEN
    body = cells.to_json(definition.plan, cell, paged=True)
    return dumps({"v": VERSION, "generation": definition.generation, "cell": body})


def decode_key(raw: bytes, definition: Definition, key: str, *, pages: cells.Pages | None = None) -> Cell | None:
    """The cell of an open key; None when it is of another generation.

    Raises:
        DecodeError: these bytes are no key of a version we know, or contradict themselves.
    """
    found = mapping(loads(raw), "$")
    _version(found)
    if integer(found.get("generation"), "$.generation") != definition.generation:
        return None
    return cells.from_json(found.get("cell"), "$.cell", definition.plan, key=key, pages=pages)


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


def _head(definition: Definition) -> bytes:
    """What stays as it is from one definition to the next: written once, and without its closing brace."""
    if definition.encoded is None:
        head = dumps(
            {
                "v": VERSION,
                "schedule": str(definition.schedule),
                "generation": definition.generation,
                "enabled": definition.enabled,
                **({"keeping": True} if definition.keeping else {}),
                "trigger": triggers.to_json(definition.trigger),
                **consumption_to_json(definition.consumption),
                **({} if definition.late is None else {"late": lateness.to_json(definition.late)}),
            }
        )
        object.__setattr__(definition, "encoded", head[:-1])
        return head[:-1]
    return definition.encoded


def _heading(found: dict[str, Any]) -> Heading:
    _version(found)
    return Heading(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        integer(found.get("sequence"), "$.sequence"),
    )


def _version(found: dict[str, Any]) -> int:
    version = integer(found.get("v"), "$.v", minimum=1)
    if version not in _VERSIONS:
        raise DecodeError("$.v", f"is version {version}; this code knows {' and '.join(map(str, _VERSIONS))}")
    return version


def _cell_of_version_1(found: dict[str, Any], definition: Definition) -> Cell:
    roll = read_roll(found.get("events"), "$.events")
    has: dict[str, Accumulation] = {}
    for leaf, item in mapping(found.get("leaves"), "$.leaves").items():
        path = f"$.leaves['{leaf}']"
        if leaf not in {slot.id for slot in definition.plan.slots}:
            raise DecodeError(path, "is no leaf of the trigger")
        kept = mapping(item, path)
        level = kept.get("level")
        has[leaf] = Accumulation(
            integer(kept.get("count"), f"{path}.count"),
            None if level is None else integer(level, f"{path}.level"),
            Arrivals(called(kept.get("events"), roll, f"{path}.events")),
        )
    return cell_of(definition.plan, has)
