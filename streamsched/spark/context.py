"""What a running program may know of its run: who it is, what it was told, and which events started it.

    run = current_run()
    flights = PartitionedFileSet("flights", "/data/flights").read_new(run)

The runner writes the run file (`spark.files`) and names it in `STREAMSCHED_RUN_FILE`; `current_run` reads it:

    {"run", "attempt", "program", "arguments", "trigger": `codec.facts.native` or null,
     "triggeringScheduleInfo": CDAP's shape or null}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from streamsched.codec import native
from streamsched.codec import trigger as trigger_codec
from streamsched.codec.reading import Fields
from streamsched.codec.scalar import loads
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.event import (
    CustomHappened,
    Event,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.job import Contribution
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.share import joined
from streamsched.domain.trigger import Leaf, Trigger, leaf_id, leaves

RUN_FILE: Final = "STREAMSCHED_RUN_FILE"


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run as its program sees it.

    Attributes:
        job_id: the satisfaction this run answers; None for a run started by hand, which has no contributions.
        key: what of `per` this run is for, such as `2013-01-07`; "" where the trigger does not correlate.
        trigger: what the schedule waits for; None where nobody knew it any more.
        contributions: for each leaf of the trigger that took part, the events that counted for it, in order of arrival,
            each with what of it counted there: of a commit the partitions the leaf asked for.
        logical_start_time: the latest tick's due time (UTC), where a clock took part.
        triggering_schedule_info: the same as CDAP tells it, for programs that come from there.
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

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """Reads a run file.

        Raises:
            DecodeError: it is none, with the path of the field.
        """
        fields = Fields(loads(raw, "$"))
        told = fields.optional_object("trigger")
        run = cls(
            fields.text("run"),
            ProgramRef.parse(fields.text("program")),
            fields.texts("arguments"),
            attempt=fields.optional_integer("attempt", minimum=1) or 1,
            triggering_schedule_info=fields.optional("triggeringScheduleInfo"),
        )
        if told is None:
            return run
        when = told.optional("when")
        return replace(
            run,
            job_id=told.text("job"),
            schedule=ScheduleRef.parse(told.text("schedule")),
            key=told.optional_text("key") or "",
            trigger=None if when is None else trigger_codec.from_json(when, told.at("when")),
            contributions=tuple(_contribution(Fields(leaf, path)) for leaf, path in told.list("leaves")),
            logical_start_time=told.optional_instant("logical_start_time"),
        )

    def by_leaf(self) -> Mapping[Leaf, Contribution]:
        """Each distinct leaf of the trigger, in its order, with what it brought: nothing, when the trigger held
        without it. Compare what a leaf asks for (`leaf.count`) with what came (`count`).
        """
        brought = self._brought()
        distinct = {} if self.trigger is None else {leaf_id(leaf): leaf for leaf in leaves(self.trigger)}
        return {leaf: brought.get(name) or Contribution(name, 0, ()) for name, leaf in distinct.items()}

    def events(self) -> tuple[Event, ...]:
        """Every event that took part in starting this run, once, in order of arrival within its leaf, each with all of
        it that counted anywhere.
        """
        found: dict[tuple[str, str], Event] = {}
        for event in (event for part in self.contributions for event in part.events):
            name = event.source, event.id
            found[name] = joined(found[name], event) if name in found else event
        return tuple(found.values())

    def new_partitions(self, dataset: str | DatasetRef) -> tuple[Partition, ...]:
        """The partitions of a dataset that took part in starting this run, each key once, in order of arrival.

        Partitions that a foreign emitter counted without naming them are not here.
        """
        ref = dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset)
        commits = [e.fact for e in self.events() if isinstance(e.fact, PartitionsAdded) and e.fact.dataset == ref]
        return tuple({partition.key: partition for fact in commits for partition in fact.partitions}.values())

    def programs(self) -> tuple[ProgramReached, ...]:
        """The runs of other programs that took part in starting this one: outcome, arguments, end, error."""
        return tuple(event.fact for event in self.events() if isinstance(event.fact, ProgramReached))

    def custom(self, name: str | EventName) -> tuple[CustomHappened, ...]:
        """The custom events of a name that took part in starting this run, with their attributes."""
        ref = name if isinstance(name, EventName) else EventName.parse(name)
        return tuple(e.fact for e in self.events() if isinstance(e.fact, CustomHappened) and e.fact.name == ref)

    def growth(self, stream: str | StreamRef) -> int:
        """By how many bytes a stream grew for this run to start; 0 when it took no part."""
        ref = stream if isinstance(stream, StreamRef) else StreamRef.parse(stream)
        return max((part.count for part in self._brought().values() if _grew(part, ref)), default=0)

    def ticks(self) -> tuple[datetime, ...]:
        """The due times (UTC) of the ticks that took part in starting this run, in their order."""
        return tuple(sorted({event.fact.due_at for event in self.events() if isinstance(event.fact, Ticked)}))

    def _brought(self) -> dict[str, Contribution]:
        """Each leaf once, though a job that was joined by others, or rolls up, may have several shares of it."""
        found: dict[str, Contribution] = {}
        for part in self.contributions:
            known = found.get(part.leaf, Contribution(part.leaf, 0, ()))
            found[part.leaf] = Contribution(part.leaf, known.count + part.count, known.events + part.events)
        return found


def current_run(environ: Mapping[str, str] | None = None) -> RunContext:
    """The run this process executes.

    Raises:
        ConfigurationError: this process was not started by streamsched.
        DecodeError: the run file is damaged.
    """
    found = (os.environ if environ is None else environ).get(RUN_FILE)
    if not found:
        raise ConfigurationError(
            f"this process is no run of streamsched: {RUN_FILE} is not set. Outside a run, pass what you need by hand, "
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
