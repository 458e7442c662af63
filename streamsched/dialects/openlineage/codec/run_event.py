"""Reads OpenLineage's run events. Decoding is total: any bytes give a `RunEvent`, None for an event without a run, or a
`DecodeError` that names the field. Fields and facets that are not read may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from streamsched.codec.json.scalar import instant, integer, loads, mapping, name, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json

#: Most outputs of one event.
MOST_OUTPUTS: Final = 10_000
#: Most identifiers of one dataset besides its own.
_MOST_SYMLINKS: Final = 10
#: Most characters of a namespace or a name, and of a run's id.
_LONGEST: Final = 4096
_LONGEST_RUN: Final = 128


class RunEventType(StrEnum):
    """What happened to the run. OTHER adds facts about it and changes nothing."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"
    FAIL = "FAIL"
    OTHER = "OTHER"


class LineageName(NamedTuple):
    """The name of a job or a dataset in OpenLineage: such as `file` and `/data/flights`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """One text of both: `s3://lake` and `flights` give `s3://lake/flights`."""
        return f"{self.namespace.rstrip('/')}/{self.name.lstrip('/')}"


class Output(NamedTuple):
    """A dataset that a run wrote. `rows` and `bytes` are None when the event does not say. `symlinks`: other names."""

    dataset: LineageName
    symlinks: tuple[LineageName, ...] = ()
    rows: int | None = None
    bytes: int | None = None


class ParentRun(NamedTuple):
    """The run that a run is part of."""

    job: LineageName
    run_id: str


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A run event.

    Attributes:
        at: its `eventTime`, UTC.
        job_type: of the facet of this name, such as `SQL_JOB`; "" without one.
        error: the message of the facet `errorMessage`; "" without one.
    """

    type: RunEventType
    at: datetime
    run_id: str
    job: LineageName
    job_type: str = ""
    parent: ParentRun | None = None
    outputs: tuple[Output, ...] = ()
    error: str = ""


def decode(raw: bytes) -> RunEvent | None:
    """Reads an event; None for a `JobEvent` or a `DatasetEvent`, which concern no run.

    Raises:
        DecodeError: it is no event of OpenLineage.
    """
    found = mapping(loads(raw), "$")
    if "run" not in found and "eventType" not in found and ("job" in found or "dataset" in found):
        return None
    run, job = mapping(found.get("run"), "$", ".run"), mapping(found.get("job"), "$", ".job")
    facets = _facets(run, "$.run")
    listed = sequence(found.get("outputs") or [], "$", ".outputs")
    if len(listed) > MOST_OUTPUTS:
        raise DecodeError("$.outputs", f"has {len(listed)} elements; an event may have at most {MOST_OUTPUTS}")
    kind = _facet(_facets(job, "$.job"), "jobType", "$.job")
    return RunEvent(
        _type(found.get("eventType")),
        instant(found.get("eventTime"), "$", ".eventTime"),
        _run_id(run.get("runId"), "$.run.runId"),
        _name(job, "$.job"),
        _optional_text(kind.get("jobType"), "$.job.facets.jobType.jobType"),
        _parent(facets),
        tuple(_output(each, index) for index, each in enumerate(listed)),
        _optional_text(_facet(facets, "errorMessage", "$.run").get("message"), "$.run.facets.errorMessage.message"),
    )


def _type(value: object) -> RunEventType:
    if value is None:
        return RunEventType.OTHER
    if type(value) is not str or value not in RunEventType.__members__:
        known = ", ".join(RunEventType)
        raise DecodeError("$.eventType", f"must be one of {known} but is {text(value, '$.eventType')!r}")
    return RunEventType(value)


def _run_id(value: object, path: str) -> str:
    found = name(value, path)
    if len(found) > _LONGEST_RUN:
        raise DecodeError(path, f"must have at most {_LONGEST_RUN} characters but has {len(found)}")
    return found


def _name(found: dict[str, Any], path: str) -> LineageName:
    return LineageName(_part(found.get("namespace"), f"{path}.namespace"), _part(found.get("name"), f"{path}.name"))


def _part(value: object, path: str) -> str:
    found = text(value, path)
    if len(found) > _LONGEST:
        raise DecodeError(path, f"must have at most {_LONGEST} characters but has {len(found)}")
    return found


def _parent(facets: dict[str, Any]) -> ParentRun | None:
    path = "$.run.facets.parent"
    found = _facet(facets, "parent", "$.run")
    if not found:
        return None
    run, job = mapping(found.get("run"), path, ".run"), mapping(found.get("job"), path, ".job")
    return ParentRun(_name(job, f"{path}.job"), _run_id(run.get("runId"), f"{path}.run.runId"))


def _output(value: object, index: int) -> Output:
    """One output; the path is made only for an error, because there may be many."""
    try:
        found = mapping(value, "")
        symlinks: Json = _facet(_facets(found, ""), "symlinks", "").get("identifiers") or []
        sizes = _facet(_facets(found, "", "outputFacets"), "outputStatistics", "", "outputFacets")
        return Output(
            _name(found, ""),
            tuple(
                _name(mapping(each, ".facets.symlinks.identifiers"), ".facets.symlinks.identifiers")
                for each in sequence(symlinks, ".facets.symlinks.identifiers")[:_MOST_SYMLINKS]
            ),
            _optional_count(sizes.get("rowCount"), ".outputFacets.outputStatistics.rowCount"),
            _optional_count(sizes.get("size"), ".outputFacets.outputStatistics.size"),
        )
    except DecodeError as exc:
        raise DecodeError(f"$.outputs[{index}]{exc.path}", exc.reason) from exc


def _facets(found: dict[str, Any], path: str, kind: str = "facets") -> dict[str, Any]:
    facets = found.get(kind)
    return {} if facets is None else mapping(facets, path, f".{kind}")


def _facet(facets: dict[str, Any], facet: str, path: str, kind: str = "facets") -> dict[str, Any]:
    """One facet; empty when it is absent."""
    found = facets.get(facet)
    return {} if found is None else mapping(found, path, f".{kind}.{facet}")


def _optional_text(value: object, path: str) -> str:
    return "" if value is None or value == "" else text(value, path)


def _optional_count(value: object, path: str) -> int | None:
    return None if value is None else integer(value, path)
