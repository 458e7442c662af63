"""Arguments that a run gets from the runs whose ends started it: CDAP's property `triggering.properties.mapping`, a
JSON text.

    {"arguments": [{"source": "day", "target": "date", "pipelineId": {"namespace": "default", "pipelineName": "up"}}]}

Argument `source` of the run that ended becomes argument `target`, by default of the same name. `pipelineId` names the
app of its program; without it every program of the trigger gives the argument, and the last one in the order of its
leaves counts. Of each leaf the first run counts. A run that had no such argument gives none.

CDAP's `pluginProperties` are accepted and give nothing: no event says what plug-ins a run had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import ProgramReached
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.json_value import Json, member_path

PROPERTY: Final = "triggering.properties.mapping"


@dataclass(frozen=True, slots=True)
class MappedArgument:
    """An argument of a run that ended, and its name in the run that this starts. `app`: namespace and name of the app
    that the run must be of; None: of any.
    """

    source: str
    target: str
    app: tuple[str, str] | None = None

    def is_given_by(self, ended: ProgramReached) -> bool:
        """Whether the run that ended gives the argument."""
        return self.source in ended.arguments and self.app in (None, (ended.program.namespace, ended.program.app))


def mapped_arguments(properties: Mapping[str, str], ready: ReadyJob) -> dict[str, str]:
    """The arguments that the runs of a satisfaction give, by the property; none by one that cannot be read."""
    try:
        mapping = read_mapping(properties)
    except InvalidDefinitionError:
        return {}  # of a schedule stored before the property had a meaning
    if not mapping:
        return {}
    ended: dict[str, ProgramReached] = {}
    for part in ready.contributions:
        if part.events and isinstance(fact := part.events[0].fact, ProgramReached):
            ended.setdefault(part.leaf, fact)
    return {
        each.target: fact.arguments[each.source]
        for fact in ended.values()
        for each in mapping
        if each.is_given_by(fact)
    }


def read_mapping(properties: Mapping[str, str], path: str = "$.properties") -> tuple[MappedArgument, ...]:
    """What the property says; nothing without it. An entry without a source gives nothing, as in CDAP.

    Raises:
        InvalidDefinitionError: it is no such JSON; the path names the property, and the reason the member in it.
    """
    said = properties.get(PROPERTY)
    if said is None:
        return ()
    where = member_path(path, PROPERTY)
    try:
        found: Json = json.loads(said)
    except (ValueError, RecursionError) as exc:
        raise InvalidDefinitionError(where, "is not JSON") from exc
    if not isinstance(found, Mapping):
        _refuse(where, "$", "an object")
    entries = found.get("arguments")
    if entries is None:
        return ()
    if not isinstance(entries, list):
        _refuse(where, "$.arguments", "a list")
    return tuple(_read_entries(entries, where))


def _read_entries(entries: Sequence[Json], where: str) -> Iterator[MappedArgument]:
    for index, entry in enumerate(entries):
        inside = f"$.arguments[{index}]"
        if not isinstance(entry, Mapping):
            _refuse(where, inside, "an object")
        source, target = (_read_text(entry, name, where, inside) for name in ("source", "target"))
        app = _read_app(entry.get("pipelineId"), where, f"{inside}.pipelineId")
        if source is not None:
            yield MappedArgument(source, source if target is None else target, app)


def _read_app(value: Json, where: str, inside: str) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        _refuse(where, inside, "an object")
    namespace, name = (_read_text(value, name, where, inside) for name in ("namespace", "pipelineName"))
    if namespace is None or name is None:
        _refuse(where, inside, "a namespace and a pipelineName")
    return namespace, name


def _read_text(entry: Mapping[str, Json], name: str, where: str, inside: str) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        _refuse(where, f"{inside}.{name}", "a text")
    return value or None


def _refuse(where: str, inside: str, wanted: str) -> NoReturn:
    raise InvalidDefinitionError(where, f"its {inside} must be {wanted}")
