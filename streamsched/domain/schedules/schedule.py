"""Programs and schedules as their owner defines them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Load
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.lateness import Late
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.limits import MOST_PARTS, abridge, check_duration, check_most
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef, check_queue_name
from streamsched.domain.programs.output import ProgramOutput, check_outputs
from streamsched.domain.programs.secret import Secret, refuse_secrets, secrets_in
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.schedules.deadline import Deadline
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import Activity, Pause, PauseAfter, PauseMode, activity
from streamsched.domain.schedules.process_job import BashJob, PythonJob, SparkJob
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.template import has_placeholder
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger, makes_corrections

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_URL: Final = re.compile(r"https?://[^/\s]|\{secret:", re.IGNORECASE)
#: Scheme or secret, and then what may be host and port.
_HOST: Final = re.compile(r"(?:https?://|\{secret:[^}]*\})([^/?#]*)", re.IGNORECASE)
_ONE_OF_A_KEY: Final = Concurrency(1, wait=True, of=ConcurrencyScope.KEY)
_STORED: Final = "what it makes is stored"


@dataclass(frozen=True, slots=True)
class HttpJob:
    """A request sent by a launcher: a 2xx response completes the run, anything else fails it. A repeated run sends it
    again with the same `Idempotency-Key`: the job id, or the run id of a run without a job.

    Attributes:
        url: `http` or `https`; `{name}` is replaced by the run's argument of that name, percent-encoded; `{secret:…}`
            by the secret, as it is. So in headers and body.
        body: `{name}` is replaced unescaped; None sends a JSON description of the run if the method has a body.
        timeout: for the whole response.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if not _URL.match(self.url):
            raise InvalidDefinitionError("$.url", f"must begin with http:// or https:// but is '{self.url}'")
        if self.method not in METHODS:
            raise InvalidDefinitionError("$.method", f"must be one of {', '.join(METHODS)} but is '{self.method}'")
        if self.body is not None and self.method not in WITH_BODY:
            raise InvalidDefinitionError("$.body", f"is not sent by method {self.method}")
        check_duration(self.timeout, "$.timeout")
        self.secrets()

    def secrets(self) -> Mapping[Secret, str]:
        """The secrets that its request needs, each with the path of a field that refers to it.

        Raises:
            InvalidDefinitionError: a reference is malformed.
        """
        headers = {f"$.headers.{name}": value for name, value in self.headers.items()}
        texts = {"$.url": self.url, "$.body": self.body or "", **headers}
        return {secret: path for path, text in texts.items() for secret in secrets_in(text, path)}


def check_host(job: HttpJob, path: str) -> None:
    """Checks that no argument of a run chooses where the request goes. Not part of `HttpJob`: programs stored before
    this rule must still be read.

    Raises:
        InvalidDefinitionError: host or port have a placeholder; the path is that of the URL.
    """
    found = _HOST.match(job.url)
    if found is not None and has_placeholder(found[1]):
        raise InvalidDefinitionError(
            f"{path}.url", f"is {abridge(job.url)}, but the arguments of a run do not choose host and port"
        )


@dataclass(frozen=True, slots=True)
class PublishJob:
    """Publishes an event, stored in the transaction that completes the run, so it is published exactly once or never.

    Attributes:
        attributes: `{name}` in their values is replaced by the run's argument of that name.
    """

    event: EventName
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        refuse_secrets({f"$.attributes.{name}": value for name, value in self.attributes.items()}, _STORED)


@dataclass(frozen=True, slots=True)
class EnqueueJob:
    """Makes a task of a queue, stored in the transaction that completes the run, so once or never.

    Attributes:
        lane, key: of the task; `{name}` is replaced by the run's argument of that name. Without a key it is the job id,
            or the run id of a run without a job; without a lane the task has one of its own.
        after: the task is due so long after the end of the run.
        data: `{name}` is replaced, within JSON escaped; None: a JSON description of the run.
    """

    queue: str
    lane: str = ""
    key: str = ""
    after: timedelta = timedelta(0)
    data: str | None = None

    def __post_init__(self) -> None:
        check_queue_name(self.queue, "$.queue")
        check_duration(self.after, "$.after", zero=True)
        refuse_secrets({"$.lane": self.lane, "$.key": self.key, "$.data": self.data or ""}, _STORED)


Executable = SparkJob | BashJob | PythonJob | HttpJob | PublishJob | EnqueueJob | ArrivalJob
#: What launchers execute within their own process; the SQL that selects inline runs repeats their names.
InlineExecutable = HttpJob | PublishJob | EnqueueJob | ArrivalJob


@dataclass(frozen=True, slots=True)
class Program:
    """A program.

    Attributes:
        arguments: defaults, overridden by preferences and schedule properties.
        outputs: the datasets that it writes, as far as they are declared.
        done_when_committed: whether a job is done, and is not repeated, when its run fails or is lost after all outputs
            were committed.
    """

    ref: ProgramRef
    executable: Executable
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    outputs: tuple[ProgramOutput, ...] = ()
    done_when_committed: bool = False

    def __post_init__(self) -> None:
        check_most(len(self.arguments), MOST_PARTS, "$.defaults", "arguments")
        check_outputs(self.outputs, self.ref.namespace, done_when_committed=self.done_when_committed)
        if self.outputs and not isinstance(self.executable, SparkJob | BashJob | PythonJob):
            raise InvalidDefinitionError("$.outputs", "are written by programs of type spark, python and bash only")


class OnChange(StrEnum):
    """Whether a schedule keeps its accumulation and its waiting jobs when its definition changes."""

    RESET = "reset"
    KEEP = "keep"


class Misfire(StrEnum):
    """Which missed ticks (more than a minute late) are fired: all, the latest, or none."""

    ALL = "all"
    ONE = "one"
    SKIP = "skip"


class OnTimeout(StrEnum):
    """What happens to a job that waited on constraints for longer than its timeout."""

    DISCARD = "discard"
    LAUNCH = "launch"


def usual_constraints(trigger: Trigger, given: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """The constraints of a definition as it is submitted: where corrections make jobs and nothing is said of a key's
    runs, one at a time, so that a correction waits for the run it corrects.
    """
    said = any(isinstance(each, Concurrency) and each.of is ConcurrencyScope.KEY for each in given)
    return given if said or not makes_corrections(trigger) else (*given, _ONE_OF_A_KEY)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Program + trigger + constraints + policies + properties.

    Attributes:
        timeout: how long a job may wait on constraints, from satisfaction; None: no limit.
        properties: arguments for its runs.
        max_duration: a run that takes longer, from its claim, is stopped; for `retry` that is a timeout.
        retry: the retry policy; None: lost runs are repeated by the installation's setting.
        consumption: what a satisfaction uses up of the accumulation.
        catch_up: bounds for firing missed ticks, if `misfire` fires any.
        pause_after: when it pauses itself because its runs fail; None: never.
        deadlines: bounds on the start, end and duration of its jobs' runs.
        late: the policy for late events; None counts them.
        pool, loads, plugins, rates, groups: the `constraints` of that kind.
        lanes: those that limit the concurrent runs of the schedule or of a key.
    """

    ref: ScheduleRef
    program: ProgramRef
    trigger: Trigger
    constraints: tuple[Constraint, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
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
    lanes: tuple[Concurrency, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._sort_constraints()
        if (self.ref.namespace, self.ref.app) != (self.program.namespace, self.program.app):
            raise InvalidDefinitionError("$.program", f"{self.program} is not of the same app as {self.ref}")
        if self.timeout is not None:
            check_duration(self.timeout, "$.timeout")
        if self.max_duration is not None:
            check_duration(self.max_duration, "$.maxDuration")
        for name in ("constraints", "deadlines", "properties"):
            check_most(len(getattr(self, name)), MOST_PARTS, f"$.{name}", name)
        self._check_catch_up()
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise InvalidDefinitionError("$.constraints", f"name group '{name}' twice")
        if sum(isinstance(each, Pool) for each in self.constraints) > 1:
            raise InvalidDefinitionError("$.constraints", "name two pools; a schedule can be in one")

    def _sort_constraints(self) -> None:
        """Groups the constraints by kind once, because every decision about a job needs them."""
        pools = (each for each in self.constraints if isinstance(each, Pool))
        object.__setattr__(self, "pool", next(pools, None))
        object.__setattr__(self, "loads", tuple(each for each in self.constraints if isinstance(each, Load)))
        object.__setattr__(self, "plugins", tuple(each for each in self.constraints if isinstance(each, PlugIn)))
        object.__setattr__(self, "rates", tuple(each for each in self.constraints if isinstance(each, Rate)))
        object.__setattr__(self, "groups", tuple(each for each in self.constraints if isinstance(each, Group)))
        limits = (each for each in self.constraints if isinstance(each, Concurrency))
        object.__setattr__(self, "lanes", tuple(each for each in limits if each.of is not ConcurrencyScope.PROGRAM))

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


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule.

    Attributes:
        generation: version of definition and state, from 1; never reused, not even after a deletion.
        created_at: when it was created, or created again after a deletion.
        deleted_at: set in a tombstone, which keeps the generation; None while the schedule exists.
        kept_from: the oldest generation whose accumulation and jobs continue in this one; None: only its own.
        pause: None when it is enabled or disabled.
        resumed_at: when waiting jobs were last allowed to run again after a pause that held them; the timeouts of the
            jobs it held count from then. None: no pause has held any.
        affinity: says which shard is its home (`domain.signals.home`); it stays when the definition changes.
    """

    definition: Schedule
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    kept_from: int | None = None
    pause: Pause | None = None
    resumed_at: datetime | None = None
    affinity: int | None = None

    @property
    def exists(self) -> bool:
        """Whether it is no tombstone."""
        return self.deleted_at is None

    @property
    def is_disabled(self) -> bool:
        """Whether it is neither enabled nor paused."""
        return not self.enabled and self.pause is None

    @property
    def status(self) -> str:
        """`enabled`, `paused` or `disabled`."""
        return "enabled" if self.enabled else "disabled" if self.pause is None else "paused"

    @property
    def state_text(self) -> str:
        """The status; of a schedule that drains, drops or collects a backlog with what it does."""
        if self.pause is None or self.pause.mode is PauseMode.KEEP:
            return self.status
        return f"paused ({self.pause.mode.text})"

    @property
    def activity(self) -> Activity:
        """What it does while it exists."""
        return activity(self.pause, enabled=self.enabled)

    @property
    def is_keeping(self) -> bool:
        """Whether it is paused and keeps its accumulation and jobs."""
        return self.pause is not None and self.pause.keep

    @property
    def listens(self) -> bool:
        """Whether events and ticks count."""
        return self.exists and self.activity.counts

    @property
    def keeps(self) -> bool:
        """Whether it has an accumulation and valid jobs."""
        return self.exists and self.activity.keeps

    @property
    def is_draining(self) -> bool:
        """Whether its waiting jobs may run although it is paused."""
        return self.pause is not None and self.pause.mode is PauseMode.DRAIN

    @property
    def backlog(self) -> bool:
        """Whether it makes jobs although it is paused."""
        return self.pause is not None and self.pause.mode is PauseMode.BACKLOG

    @property
    def oldest_valid_generation(self) -> int:
        """The oldest generation whose jobs may still run; the column of that name is computed alike."""
        if self.kept_from is not None:
            return self.kept_from
        return self.generation if self.activity.fires else self.generation + 1
