"""Settings: read once, at the edge, from a mapping passed in; a wrong one names its variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from streamsched.domain.duration import duration_text, parse_duration
from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError

PREFIX: Final = "STREAMSCHED_"

_LOG_FORMATS: Final = ("auto", "console", "json")
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One installation's settings; every field is a variable `STREAMSCHED_<FIELD>`. Durations are written as
    everywhere else (`domain.duration`); `0` is one too.

    Attributes:
        database_url: PostgreSQL, the truth of schedules, jobs and runs.
        broker_url: the log; the database when not given.
        shards: parts of the work; `streamsched reshard` changes their number.
        data_dir: where run logs, Spark's scratch files and (embedded) PostgreSQL live.
        emit_url: where programs of runs send their events: an API, or the log; the API on their launcher's own machine
            when not given. Nobody there: events wait in `<data_dir>/spool`, from which launchers send them each minute.
        api_host, api_port: where the API answers, its health and metrics too.
        log_level, log_format: what processes log, and how: `auto` is `console` at a terminal, else `json`.
        spark_master: where programs run that name no master of their own.
        dedupe_horizon: how long a repeated event id is recognised.
        retention: how long the log keeps records: public ones, and what is on its way (signals, ready jobs, wake-ups,
            verdicts, late events, dead letters).
        verdicts_keep: how long it can be asked what became of an event; 0 keeps nothing of the kind.
        jobs_keep: how long jobs and runs that have ended can be seen, with what was decided about them.
        audit_keep: how long it can be seen what was done to schedules, programs and groups.
        health_host, health_port: where workers and launchers answer `/health/live`, `/health/ready` and `/metrics`;
            port 0: nowhere. An API answers them there too, besides on its own port.
        lease: how long a silent owner keeps its shard or part.
        stuck_after: after this long in which a shard, or the whole worker, gets nothing done, the worker ends itself;
            0: never.
        heartbeat: how often a live run says so.
        lost_after: after this long without a sign, a run's process is looked for; lost when it is gone.
        clusters: whose load can be asked: `name=URL` with commas between; URLs as `spark/clusters.py` has them.
        run_attempts: how many runs a job gets when they are lost.
        launches_per_second: how quickly runs may be started in the long run, by all launchers together; 0: at any pace.
        launch_burst: how many at once after a quiet time.
        body_limit: largest request body in bytes.
    """

    database_url: str
    broker_url: str = ""
    shards: int = 4
    data_dir: Path = Path(".streamsched")
    api_host: str = "127.0.0.1"
    api_port: int = 8765
    health_host: str = "127.0.0.1"
    health_port: int = 0
    emit_url: str = ""
    spark_master: str = "local[*]"
    dedupe_horizon: timedelta = timedelta(days=1)
    retention: timedelta = timedelta(days=7)
    verdicts_keep: timedelta = timedelta(days=7)
    jobs_keep: timedelta = timedelta(days=30)
    audit_keep: timedelta = timedelta(days=365)
    lease: timedelta = timedelta(seconds=6)
    stuck_after: timedelta = timedelta(seconds=60)
    heartbeat: timedelta = timedelta(seconds=2)
    lost_after: timedelta = timedelta(seconds=15)
    clusters: str = ""
    run_attempts: int = 3
    launches_per_second: int = 20
    launch_burst: int = 100
    body_limit: int = 16 * 1024 * 1024
    log_level: str = "info"
    log_format: str = "auto"

    def __post_init__(self) -> None:
        if not self.broker_url:
            object.__setattr__(self, "broker_url", self.database_url)
        _require(
            self.database_url.startswith(("postgres://", "postgresql://")), "database_url", "must be postgresql://…"
        )
        _require("://" in self.broker_url, "broker_url", "must be a URL such as postgresql://… or kafka://…")
        _require(1 <= self.shards <= 1024, "shards", "must be from 1 to 1024")
        _require(0 <= self.api_port <= 65535, "api_port", "must be from 0 (any free one) to 65535")
        _require(0 <= self.health_port <= 65535, "health_port", "must be from 0 (none) to 65535")
        _require(not self.emit_url or "://" in self.emit_url, "emit_url", "must be a URL such as http://host:8765")
        _require(self.run_attempts >= 1, "run_attempts", "must be at least 1")
        named = self.cluster_urls()
        _require(all("://" in url for url in named.values()), "clusters", "must be name=URL,name=URL")
        _require(self.launches_per_second >= 0, "launches_per_second", "must be at least 0 (at any pace)")
        _require(self.launch_burst >= 1, "launch_burst", "must be at least 1")
        _require(self.body_limit >= 1024, "body_limit", "must be at least 1024 bytes")
        for name in ("dedupe_horizon", "retention", "jobs_keep", "audit_keep", "lease", "heartbeat", "lost_after"):
            _require(getattr(self, name) > timedelta(0), name, "must be longer than nothing")
        _require(self.stuck_after >= timedelta(0), "stuck_after", "must not be negative (0: never)")
        _require(self.verdicts_keep >= timedelta(0), "verdicts_keep", "must not be negative")
        _require(self.lost_after > self.heartbeat, "lost_after", "must be longer than the heartbeat")
        _require(self.log_level in _LOG_LEVELS, "log_level", f"must be one of {', '.join(_LOG_LEVELS)}")
        _require(self.log_format in _LOG_FORMATS, "log_format", f"must be one of {', '.join(_LOG_FORMATS)}")

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **given: object) -> Self:
        """Settings from `STREAMSCHED_*`; what is `given` (an option of the command line) wins, None gives nothing.

        Raises:
            ConfigurationError: a variable is missing, cannot be read, or is out of its bounds; the message names it.
        """
        values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for field in fields(cls):
            text = environ.get(_variable(field.name), "").strip()
            if text and field.name not in values:
                values[field.name] = _read(field.name, str(field.type), text)
        if "database_url" not in values:
            raise ConfigurationError(
                f"{_variable('database_url')} is not set: the URL of PostgreSQL, such as postgresql://host/streamsched "
                "(`streamsched dev` brings its own)"
            )
        return cls(**values)

    def cluster_urls(self) -> dict[str, str]:
        """The URL of each cluster's probe, by its name."""
        pairs = (each.partition("=") for each in self.clusters.split(",") if each.strip())
        return {name.strip(): url.strip() for name, _, url in pairs}

    def runs_emit_to(self) -> str:
        """Where programs of runs send their events."""
        return self.emit_url or url_here(self.api_host, self.api_port)

    def variables(self) -> dict[str, str]:
        """The variables from which `from_env` reads equal settings: what a child process is given."""
        return {_variable(field.name): _written(getattr(self, field.name)) for field in fields(self)}


def url_here(host: str, port: int) -> str:
    """Where a client on the same machine finds who listens there."""
    if host in {"0.0.0.0", "::", ""}:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _duration(text: str) -> timedelta:
    try:
        return timedelta(0) if text == "0" else parse_duration(text)
    except InvalidDefinitionError as exc:
        raise ValueError(exc.reason) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "str": str,
    "int": _whole,
    "Path": Path,
    "timedelta": _duration,
}


def _read(name: str, kind: str, text: str) -> object:
    try:
        return _READERS[kind](text)
    except ValueError as exc:
        raise ConfigurationError(f"{_variable(name)}: {exc}") from exc


def _written(value: object) -> str:
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def _require(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise ConfigurationError(f"{_variable(name)} {rule}")


def _variable(name: str) -> str:
    return PREFIX + name.upper()
