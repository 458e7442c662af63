"""Programs and schedules as their owner defines them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from streamsched.domain.catchup import UNBOUNDED, CatchUp
from streamsched.domain.constraint import Constraint
from streamsched.domain.consumption import Consumption
from streamsched.domain.deadline import Deadline
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.group import Group
from streamsched.domain.lateness import Late
from streamsched.domain.load import Load
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pause import PauseAfter
from streamsched.domain.plugin import PlugIn
from streamsched.domain.pool import Pool
from streamsched.domain.rate import Rate
from streamsched.domain.retry import Retry
from streamsched.domain.trigger import Trigger

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_URL: Final = re.compile(r"https?://[^/\s]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A PySpark application run by `spark-submit` in client mode.

    Attributes:
        main: path of the Python file.
        arguments: its command line; `{name}` is replaced by the run's argument of that name.
        master: Spark master URL; None takes the installation's.
        conf: `--conf` settings.
    """

    main: str
    arguments: tuple[str, ...] = ()
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BashJob:
    """A shell command; the run's arguments are in its environment as `STREAMSCHED_ARG_<NAME>`."""

    command: str


@dataclass(frozen=True, slots=True)
class HttpJob:
    """A request that a launcher sends itself: an answer of 2xx completes the run, anything else fails it. A run that is
    repeated sends it again, with the same `Idempotency-Key`: the job's id, or the run's where there is no job.

    Attributes:
        url: `http` or `https`; `{name}` is replaced by the run's argument of that name, percent-encoded.
        body: `{name}` is replaced as it is; None sends what the run is, as JSON, where the method has a body.
        timeout: how long the answer may take.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if not _URL.match(self.url):
            raise InvalidDefinitionError("$.url", f"must begin with http:// or https:// but is '{self.url}'")
        if self.method not in METHODS:
            raise InvalidDefinitionError("$.method", f"must be one of {', '.join(METHODS)} but is '{self.method}'")
        if self.body is not None and self.method not in WITH_BODY:
            raise InvalidDefinitionError("$.body", f"is not sent by method {self.method}")
        if self.timeout <= timedelta(0):
            raise InvalidDefinitionError("$.timeout", f"must be positive but is {self.timeout}")


@dataclass(frozen=True, slots=True)
class PublishJob:
    """An event of that name, stored in the one transaction that completes the run: published once or not at all.

    Attributes:
        attributes: `{name}` in their values is replaced by the run's argument of that name.
    """

    event: EventName
    attributes: Mapping[str, str] = field(default_factory=dict)


Executable = SparkJob | BashJob | HttpJob | PublishJob
#: What launchers execute within their own process; the SQL that looks for runs repeats their names.
Quick = HttpJob | PublishJob


@dataclass(frozen=True, slots=True)
class Program:
    """What runs. `arguments` are defaults: preferences, schedule properties and triggering facts come after them."""

    ref: ProgramRef
    executable: Executable
    arguments: Mapping[str, str] = field(default_factory=dict)


class OnChange(StrEnum):
    """What becomes of what a schedule has accumulated, and of its waiting jobs, when its definition changes."""

    RESET = "reset"
    KEEP = "keep"


class Misfire(StrEnum):
    """What becomes of ticks that were missed: each of them, the latest, or none."""

    ALL = "all"
    ONE = "one"
    SKIP = "skip"


class OnTimeout(StrEnum):
    """What becomes of a job that waited on constraints for longer than its timeout."""

    DISCARD = "discard"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Program + trigger + constraints + policies + properties.

    Attributes:
        timeout: how long a job may wait on constraints, from satisfaction; None waits for ever.
        properties: arguments this schedule gives to its runs.
        max_duration: a run that takes longer from its claim on is asked to end; for `retry` that is a timeout.
        retry: what becomes of a job whose run failed; None: lost runs are repeated as the installation has it.
        consumption: what a satisfaction uses up of the events that have come.
        catch_up: bounds for making up for missed ticks, as far as `misfire` wants that at all.
        pause_after: when it pauses itself because its runs fail; None: never.
        deadlines: by when its jobs start and finish, how long their runs take, and what happens otherwise.
        late: what becomes of events that come long after they happened; None counts them like any other.
        pool: of `constraints` the one where its runs take a place.
        loads: what has to be free on clusters.
        plugins: whom others' code asks.
        rates: what meters its runs.
        groups: the named groups its runs take slots of.
    """

    ref: ScheduleRef
    program: ProgramRef
    trigger: Trigger
    constraints: tuple[Constraint, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    overlap: Overlap = Overlap.COALESCE
    misfire: Misfire = Misfire.ONE
    timeout: timedelta | None = None
    on_timeout: OnTimeout = OnTimeout.DISCARD
    consumption: Consumption = Consumption.CUMULATIVE
    retry: Retry | None = None
    max_duration: timedelta | None = None
    catch_up: CatchUp = UNBOUNDED
    late: Late | None = None
    deadlines: tuple[Deadline, ...] = ()
    pause_after: PauseAfter | None = None

    pool: Pool | None = field(init=False, repr=False, compare=False)
    loads: tuple[Load, ...] = field(init=False, repr=False, compare=False)
    plugins: tuple[PlugIn, ...] = field(init=False, repr=False, compare=False)
    rates: tuple[Rate, ...] = field(init=False, repr=False, compare=False)
    groups: tuple[Group, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._sort_constraints()
        if (self.ref.namespace, self.ref.app) != (self.program.namespace, self.program.app):
            raise InvalidDefinitionError("$.program", f"{self.program} is not of the same app as {self.ref}")
        if self.timeout is not None and self.timeout <= timedelta(0):
            raise InvalidDefinitionError("$.timeout", f"must be positive but is {self.timeout}")
        if self.max_duration is not None and self.max_duration <= timedelta(0):
            raise InvalidDefinitionError("$.maxDuration", f"must be positive but is {self.max_duration}")
        self._check_catch_up()
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise InvalidDefinitionError("$.constraints", f"name group '{name}' twice")
        if sum(isinstance(each, Pool) for each in self.constraints) > 1:
            raise InvalidDefinitionError("$.constraints", "name two pools; a schedule can be in one")

    def _sort_constraints(self) -> None:
        """By kind, once: every decision about a job of the schedule asks."""
        pools = (each for each in self.constraints if isinstance(each, Pool))
        object.__setattr__(self, "pool", next(pools, None))
        object.__setattr__(self, "loads", tuple(each for each in self.constraints if isinstance(each, Load)))
        object.__setattr__(self, "plugins", tuple(each for each in self.constraints if isinstance(each, PlugIn)))
        object.__setattr__(self, "rates", tuple(each for each in self.constraints if isinstance(each, Rate)))
        object.__setattr__(self, "groups", tuple(each for each in self.constraints if isinstance(each, Group)))

    def _check_catch_up(self) -> None:
        bounds = self.catch_up
        if self.misfire is Misfire.SKIP and bounds != UNBOUNDED:
            raise InvalidDefinitionError(
                "$.catchUp", "says how to make up for missed ticks, but misfire 'skip' never does"
            )
        if self.misfire is Misfire.ONE and replace(bounds, window=None) != UNBOUNDED:
            raise InvalidDefinitionError(
                "$.catchUp", "bounds how many ticks are made up for, but misfire 'one' fires one"
            )
