"""The events that a run event of OpenLineage becomes, and how its names become ours.

| run event                         | events                                                                  |
|-----------------------------------|-------------------------------------------------------------------------|
| `START`                           | the program of the job: `started`                                       |
| `COMPLETE`                        | the same: `succeeded`; and for each output one commit of its dataset    |
| `FAIL`, `ABORT`                   | the program: `failed`, `killed`                                         |
| `RUNNING`, `OTHER`                | none                                                                    |

A job of type `SQL_JOB` or `RDD_JOB` with a parent is one action of a Spark application: its outputs count, and only the
application is a program.

>>> plain_name("/data/flights"), plain_name("db.flights"), plain_name("s3://lake")
('data_flights', 'db_flights', 's3_lake')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.dialects.openlineage.codec.run_event import LineageName, Output, RunEvent, RunEventType
from streamsched.domain.events.event import Event, Outcome, Partition, PartitionsAdded, ProgramReached
from streamsched.domain.names import DatasetRef, ProgramRef

#: The source of all these events. Their ids are made from the run's id, which is unique.
SOURCE: Final = "openlineage"
_OUTCOMES: Final[Mapping[RunEventType, Outcome]] = MappingProxyType(
    {
        RunEventType.START: Outcome.STARTED,
        RunEventType.COMPLETE: Outcome.SUCCEEDED,
        RunEventType.FAIL: Outcome.FAILED,
        RunEventType.ABORT: Outcome.KILLED,
    }
)
_ACTIONS: Final = frozenset({"SQL_JOB", "RDD_JOB"})
_OTHER: Final = re.compile(r"[^a-zA-Z0-9-]+")
#: Most characters of a name; a longer one is cut, with a digest of the whole.
_LONGEST: Final = 200
_LONGEST_ERROR: Final = 2000
#: The folder in which a partitioned file set lands its files; it announces its commits itself.
_STAGING: Final = "/_staging/"


class IgnoredOutput(NamedTuple):
    """An output that became no event, and why."""

    location: str
    reason: str


class DatasetEvent(NamedTuple):
    """The event of an output. `dataset` is also in its fact."""

    dataset: DatasetRef
    event: Event


class LineageFacts(NamedTuple):
    """What a run event says: at most one event of a program, and those of datasets, each location once."""

    program: Event | None
    datasets: tuple[DatasetEvent, ...]
    ignored: tuple[IgnoredOutput, ...]


def plain_name(text: str) -> str:
    """A text as a name: other characters than letters, digits and `-` become `_`, none at the ends. Two texts may
    become one name.
    """
    name = _OTHER.sub("_", text).strip("_") or "_"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 17]}_{_digest(text)}"


def program_of(job: LineageName, namespace: str) -> ProgramRef:
    """The program that stands for a job: `<namespace>.<job's namespace>.<job's name>`."""
    return ProgramRef(namespace, plain_name(job.namespace), plain_name(job.name))


def dataset_of(output: Output, namespace: str, known: Mapping[str, DatasetRef]) -> DatasetRef:
    """The dataset that stands for an output: the known one at its location or at that of a symlink, else
    `<namespace>.<name>`, without the storage it is in.

    Args:
        known: location, as `LineageName` is as text → dataset.
    """
    for name in (output.dataset, *output.symlinks):
        if (found := known.get(str(name))) is not None:
            return found
    return DatasetRef(namespace, plain_name(output.dataset.name))


def facts(run: RunEvent, *, namespace: str, known: Mapping[str, DatasetRef]) -> LineageFacts:
    """The events that a run event becomes. The same run event always becomes the same events, with the same ids.

    A commit has one partition, `run=<id of the run>`, because OpenLineage names none. Without statistics of the output
    they may follow: Spark's listener often sends another `COMPLETE` with them.

    Raises:
        InvalidError: `namespace` is not the name of a namespace.
    """
    found: dict[str, DatasetEvent] = {}
    ignored: list[IgnoredOutput] = []
    for output in run.outputs if run.type is RunEventType.COMPLETE else ():
        location = str(output.dataset)
        if _STAGING in location:
            ignored.append(IgnoredOutput(location, "a partitioned file set announces its commits itself"))
        elif location not in found:
            dataset = dataset_of(output, namespace, known)
            found[location] = DatasetEvent(dataset, _commit(run, location, dataset, output))
    return LineageFacts(_end_event(run, namespace), tuple(found.values()), tuple(ignored))


def _commit(run: RunEvent, location: str, dataset: DatasetRef, output: Output) -> Event:
    partition = Partition(f"run={run.run_id}", {"run": run.run_id}, output.bytes, output.rows)
    added = PartitionsAdded(dataset, (partition,), 1)
    if not added.has_statistics:
        added = replace(added, statistics_follow=True)
    return Event(f"{run.run_id}.{run.type.lower()}.{_digest(location)}", SOURCE, run.at, added)


def _end_event(run: RunEvent, namespace: str) -> Event | None:
    outcome = _OUTCOMES.get(run.type)
    if outcome is None or (run.job_type in _ACTIONS and run.parent is not None):
        return None
    arguments = {"job": str(run.job)}
    if run.parent is not None:
        arguments |= {"parent_job": str(run.parent.job), "parent_run": run.parent.run_id}
    fact = ProgramReached(
        program_of(run.job, namespace),
        run.run_id,
        outcome,
        arguments,
        None if outcome is Outcome.STARTED else run.at,
        run.error[:_LONGEST_ERROR] or None,
    )
    return Event(f"{run.run_id}.{run.type.lower()}", SOURCE, run.at, fact)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
