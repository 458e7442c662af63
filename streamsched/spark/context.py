"""The run context of a program: its run's identity, arguments, and the events that started it.

    run = current_run()
    flights = PartitionedFileSet("flights", "/data/flights").read_new(run)

The runner writes the run file (`spark.files`) and names it in `STREAMSCHED_RUN_FILE`, or gives its content to drivers
on other machines in `STREAMSCHED_RUN_CONTENT`; `current_run` reads it:

    {"run", "attempt", "program", "arguments", "trigger": `codec.views.trigger_context.native` or null,
     "triggeringScheduleInfo": CDAP's shape or null}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from streamsched.codec.events import native
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.triggers.event_slice import join_slices
from streamsched.domain.triggers.trigger import Leaf, Partitions, Total, Trigger, leaf_id, leaves

RUN_FILE: Final = "STREAMSCHED_RUN_FILE"
#: The content of the run file, for drivers on other machines.
RUN_CONTENT: Final = "STREAMSCHED_RUN_CONTENT"


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run, as seen by its program.

    Attributes:
        job_id: the job of this run; None for a manual run, which has no contributions.
        schedule: None for a manual run, and for a submission to a program.
        submitted: whether a person submitted the job. It has no contributions, unless satisfactions were coalesced into
            it.
        key: the correlation key of `per`, such as `2013-01-07`; "" if the trigger does not correlate.
        trigger: the schedule's trigger; None if it is no longer stored.
        contributions: for each leaf that contributed, the events that counted, in order of arrival, reduced to what
            counted there: of a commit only the partitions that matched the leaf.
        logical_start_time: due time (UTC) of the latest tick; None if no tick contributed.
        triggering_schedule_info: the same in CDAP's format, for programs written for CDAP.
    """

    run_id: str
    program: ProgramRef
    arguments: Mapping[str, str] = field(default_factory=dict)
    job_id: str | None = None
    schedule: ScheduleRef | None = None
    key: str = ""
    trigger: Trigger | None = None
    contributions: tuple[Contribution, ...] = ()
    logical_start_time: datetime | None = None
    attempt: int = 1
    triggering_schedule_info: Mapping[str, Any] | None = None
    submitted: bool = False

    @property
    def triggered(self) -> bool:
        """Whether a trigger's satisfaction started this run. A manual run or a submission by a person has no events and
        no new partitions.
        """
        return self.job_id is not None and (bool(self.contributions) or not self.submitted)

    @property
    def commit_id(self) -> str:
        """Names what this job writes: the same in each attempt of the job, another in a rerun. Of a run without a job
        the run's id. The writers of datasets add dataset and ordinal to it; other writes may use it as their key.
        """
        return self.job_id or self.run_id

    @property
    def namespace(self) -> str:
        """The program's namespace; the default one for names of datasets, streams and events."""
        return self.program.namespace

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """Decodes a run file.

        Raises:
            DecodeError: it is malformed; has the path of the field.
        """
        fields = Fields(loads(raw, "$"))
        started_by, info = fields.optional_object("trigger"), fields.optional_object("triggeringScheduleInfo")
        run = cls(
            fields.text("run"),
            ProgramRef.parse(fields.text("program")),
            fields.texts("arguments"),
            attempt=fields.optional_integer("attempt", minimum=1) or 1,
            triggering_schedule_info=None if info is None else info.raw(),
        )
        if started_by is None:
            return run
        when = started_by.optional_value("when")
        schedule = started_by.optional_text("schedule")
        return replace(
            run,
            job_id=started_by.text("job"),
            schedule=None if schedule is None else ScheduleRef.parse(schedule),
            key=started_by.optional_text("key") or "",
            trigger=None if when is None else trigger_codec.from_json(when, started_by.path_of("when")),
            contributions=tuple(_contribution(Fields(leaf, path)) for leaf, path in started_by.list("leaves")),
            logical_start_time=started_by.optional_instant("logical_start_time"),
            submitted=started_by.optional_object("submission") is not None,
        )

    def by_leaf(self) -> Mapping[Leaf, Contribution]:
        """The contribution of each distinct leaf, in trigger order; empty if the leaf was not needed. `leaf.count` is
        the required and `Contribution.count` the actual number.
        """
        contributions = self._by_leaf_id()
        distinct = {} if self.trigger is None else {leaf_id(leaf): leaf for leaf in leaves(self.trigger)}
        return {leaf: contributions.get(name) or Contribution(name, 0, ()) for name, leaf in distinct.items()}

    def events(self) -> tuple[Event, ...]:
        """Every event that contributed to this run, once, in order of arrival within its leaf, with everything of it
        that counted in any leaf.
        """
        found: dict[tuple[str, str], Event] = {}
        for event in (event for part in self.contributions for event in part.events):
            name = event.source, event.id
            found[name] = join_slices(found[name], event) if name in found else event
        return tuple(found.values())

    def waits_for(self, dataset: DatasetRef) -> bool:
        """Whether the trigger of this run's schedule names the dataset; True if the trigger is unknown."""
        if self.trigger is None:
            return True
        named = {leaf.dataset for leaf in leaves(self.trigger) if isinstance(leaf, Partitions | Total)}
        return dataset in named

    def new_partitions(self, dataset: str | DatasetRef) -> tuple[Partition, ...]:
        """The partitions of a dataset that contributed to this run, each key once, in order of arrival. Empty for a
        manual run (not `triggered`).

        Does not contain partitions that another emitter counted without naming their keys.
        """
        ref = dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset, self.namespace)
        commits = [e.fact for e in self.events() if isinstance(e.fact, PartitionsAdded) and e.fact.dataset == ref]
        return tuple({partition.key: partition for fact in commits for partition in fact.partitions}.values())

    def programs(self) -> tuple[ProgramReached, ...]:
        """The runs of other programs that contributed to this run: outcome, arguments, end, error."""
        return tuple(event.fact for event in self.events() if isinstance(event.fact, ProgramReached))

    def custom(self, name: str | EventName) -> tuple[CustomHappened, ...]:
        """The custom events of a name that contributed to this run, with their attributes."""
        ref = name if isinstance(name, EventName) else EventName.parse(name, self.namespace)
        return tuple(e.fact for e in self.events() if isinstance(e.fact, CustomHappened) and e.fact.name == ref)

    def growth(self, stream: str | StreamRef) -> int:
        """The growth of a stream in bytes that counted for this run; 0 if it did not contribute."""
        ref = stream if isinstance(stream, StreamRef) else StreamRef.parse(stream, self.namespace)
        return max((part.count for part in self._by_leaf_id().values() if _grew(part, ref)), default=0)

    def ticks(self) -> tuple[datetime, ...]:
        """The due times (UTC) of the ticks that contributed to this run, ascending."""
        facts = [event.fact for event in self.events() if isinstance(event.fact, Ticked)]
        return tuple(sorted({due_at for fact in facts for due_at in fact.times}))

    def _by_leaf_id(self) -> dict[str, Contribution]:
        """One contribution per leaf; a job with coalesced satisfactions or a rollup has several."""
        found: dict[str, Contribution] = {}
        for part in self.contributions:
            known = found.get(part.leaf, Contribution(part.leaf, 0, ()))
            found[part.leaf] = Contribution(part.leaf, known.count + part.count, (*known.events, *part.events))
        return found


def current_run(environ: Mapping[str, str] | None = None) -> RunContext:
    """The run this process executes.

    Raises:
        ConfigurationError: this process was not started by streamsched.
        DecodeError: the run file is damaged.
    """
    given = os.environ if environ is None else environ
    if content := given.get(RUN_CONTENT):
        return RunContext.from_json(content.encode())
    found = given.get(RUN_FILE)
    if not found:
        raise ConfigurationError(
            f"this process is not a run of streamsched: {RUN_FILE} is not set. Outside a run, pass the keys yourself, "
            "e.g. `dataset.read_partitions(spark, keys)`"
        )
    try:
        raw = Path(found).read_bytes()
    except OSError as exc:
        raise ConfigurationError(f"the run file {found} cannot be read: {exc.strerror}") from exc
    return RunContext.from_json(raw)


def _grew(part: Contribution, stream: StreamRef) -> bool:
    return any(isinstance(event.fact, StreamSize) and event.fact.stream == stream for event in part.events)


def _contribution(fields: Fields) -> Contribution:
    events = tuple(native.from_json(event, path) for event, path in fields.list("events"))
    return Contribution(fields.text("leaf"), fields.integer("count"), events)
