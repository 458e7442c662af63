"""Settings by subject, read once from a mapping such as the environment. Errors name the variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from streamsched.domain.access.claims import ALGORITHMS, grants_from_text
from streamsched.domain.access.grant import Grant
from streamsched.domain.addresses import Network, parse_networks
from streamsched.domain.constraints.pace import Pace
from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.notices.mail_rules import MailRule, parse_mail_rules
from streamsched.domain.notices.mail_server import (
    MailServer,
    MailSettings,
    parse_mail_server,
    parse_secret,
    parse_sender,
)
from streamsched.domain.programs.inherited_environment import DEFAULT, parse_names
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.secret_rules import SecretRule, parse_rules
from streamsched.parts import additions
from streamsched.setting_values import (
    LOOPBACK,
    SettingGroup,
    folder_of,
    hosts,
    number,
    one_of,
    pairs,
    port,
    positive_duration,
    require,
    setting,
    url,
    url_here,
    variable,
    variables_of,
    written_value,
)

_Group = TypeVar("_Group", bound=SettingGroup)

_HTTP: Final = url("http://… or https://…", "http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings(SettingGroup):
    """Logs of processes.

    Attributes:
        level, format: minimum level and format of logs; `auto` is `console` at a terminal, else `json`.
    """

    VARIABLES: ClassVar[str] = "log_"

    level: str = setting("info", one_of("debug", "info", "warning", "error"))
    format: str = setting("auto", one_of("auto", "console", "json"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings(SettingGroup):
    """Health checks of workers and launchers.

    Attributes:
        host, port: address of `/health/live`, `/health/ready` and `/metrics` of workers and launchers; port 0: none. An
            API serves them there in addition to its own port.
    """

    VARIABLES: ClassVar[str] = "health_"

    host: str = "127.0.0.1"
    port: int = setting(0, port("none"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings(SettingGroup):
    """How long things are kept, such as `36h` or `30d`: up to an hour longer; from three days on up to a day, and the
    history of schedules from 90 days on up to a month longer.

    Attributes:
        log: how long the log keeps public records, signals, ready jobs, wake-ups, verdicts, late events and dead
            letters. In PostgreSQL what shards and intakes have not read stays; Kafka deletes it, and `doctor` says so.
        verdicts: how long verdicts of events are kept; 0 stores none.
        jobs: how long ended jobs and runs are kept, with the decisions about them.
        nodes: how long ended nodes of graphs are kept; one that is gone runs again when it is needed.
        audit: how long the audit and the history of schedules, programs and groups are kept, and what is stored of
            deleted schedules: that at least as long as the log's records and ended jobs.
    """

    log: timedelta = setting(timedelta(days=7), positive_duration(), variable="retention")
    verdicts: timedelta = setting(timedelta(days=7), variable="verdicts_keep")
    jobs: timedelta = setting(timedelta(days=30), positive_duration(), variable="jobs_keep")
    nodes: timedelta = setting(timedelta(days=365), positive_duration(), variable="nodes_keep")
    audit: timedelta = setting(timedelta(days=365), positive_duration(), variable="audit_keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(SettingGroup):
    """Workers.

    Attributes:
        dedupe_horizon: how long a duplicate event id is recognised; a worker holds 33 bytes for each id.
        stuck_after: the worker ends itself when a shard, or the whole worker, makes no progress for so long; 0: never.
    """

    dedupe_horizon: timedelta = setting(timedelta(days=4), positive_duration())
    stuck_after: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings(SettingGroup):
    """The API, with the pages.

    Attributes:
        host, port: address of the API, with its health checks and metrics.
        access: `tokens`: requests need a token with the permission. `open`: any client that reaches the API may do
            everything; only with `api_host` on loopback.
        allowed_hosts: additional host names of the API, comma-separated, such as that of a proxy:
            `scheduler.example.org`, `*.example.org` for its subdomains, `*` for any. Always allowed: loopback names and
            addresses, `api_host`, the host of `emit_url`, and any IP address if `api_host` is 0.0.0.0 or ::.
        body_limit: largest request body in bytes.
        backlog_limit: events of a namespace over HTTP are refused (429, with Retry-After) while others of it wait for
            longer than that to be read from the log; 0: never.
        update_schedules: whether a deployment that does not say so updates schedules that exist: `true` or `false`.
        pages_url: where people open the pages, such as `https://scheduler.example.org`, for links in notifications;
            empty: they have none, and with `dev` those of this machine.
    """

    VARIABLES: ClassVar[str] = "api_"

    host: str = "127.0.0.1"
    port: int = setting(8765, port("any free one"))
    access: str = setting("tokens", one_of("tokens", "open"))
    allowed_hosts: Sequence[str] = setting("", hosts)
    body_limit: int = setting(16 * 1024 * 1024, number(1024, unit=" bytes"), variable="body_limit")
    backlog_limit: timedelta = setting(timedelta(seconds=60), variable="backlog_limit")
    update_schedules: bool = setting(True, variable="update_schedules")
    pages_url: str = setting("", lambda text: _HTTP(text).rstrip("/"), variable="pages_url")

    def __post_init__(self) -> None:
        rule = f"must be `tokens` when the API listens on {self.host}, which is not loopback"
        require(self.access == "tokens" or self.host in LOOPBACK, "api_access", rule)


def _algorithms(text: str) -> frozenset[str]:
    found = frozenset(each.strip() for each in text.split(",") if each.strip())
    if not found or not found <= ALGORITHMS:
        raise InvalidDefinitionError("$", f"must be some of {', '.join(sorted(ALGORITHMS))}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings(SettingGroup):
    """An OpenID provider.

    Attributes:
        issuer: URL of an OpenID provider whose tokens the API accepts beside its own; empty: none. `https`, or on
            loopback `http`.
        audience: the audience (`aud`) of these tokens; required with an issuer.
        roles: what the provider's roles or groups give: comma-separated `value=role` or `value=role@namespace`, with
            the permission `shell` as `value=developer+shell@namespace`.
        roles_claim: the claim with these values; dots go into objects, as in `realm_access.roles`.
        name_claim: the claim that names the caller in the audit.
        algorithms: comma-separated algorithms that may sign these tokens.
        skew: how far the clocks of the provider and of this process may differ.
        client_id: this installation's client at the provider, with which people log in to the pages; empty: they log in
            with tokens of this installation only.
        client_secret: its secret; empty: a public client. Never printed.
        scopes: what a login asks for, separated by spaces; `openid` is among them.
    """

    VARIABLES: ClassVar[str] = "oidc_"

    issuer: str = ""
    audience: str = ""
    roles: Mapping[str, tuple[Grant, ...]] = setting("", grants_from_text)
    roles_claim: str = "roles"
    name_claim: str = "sub"
    algorithms: frozenset[str] = setting("RS256,ES256,EdDSA", _algorithms)
    skew: timedelta = timedelta(seconds=30)
    client_id: str = ""
    client_secret: str = setting("", secret=True)
    scopes: str = "openid profile"

    def __post_init__(self) -> None:
        if self.issuer:
            parts = urlsplit(self.issuer)
            secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
            require(secure, "oidc_issuer", "must be https://…, or on loopback http://…")
            require(bool(self.audience), "oidc_audience", "must be set with an issuer")
            require(bool(self.roles), "oidc_roles", "must be set with an issuer, such as ops=operator")
        require(bool(self.issuer or not self.client_id), "oidc_client_id", "must be set with an issuer")
        require("openid" in self.scopes.split(), "oidc_scopes", "must contain `openid`")


def _clusters(text: str) -> dict[str, str]:
    found = pairs(text, "name=URL,name=URL")
    if not all("://" in each for each in found.values()):
        raise InvalidDefinitionError("$", "must be name=URL,name=URL")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(SettingGroup):
    """Runs: how many, how fast, and when they are lost.

    Attributes:
        heartbeat: interval between two heartbeats of a run.
        lost_after: after so long without a heartbeat, the run's process is checked; the run is lost if it has ended.
        attempts: most runs of a job when runs are lost.
        launches_per_second: long-term rate limit of run starts, for all launchers together; 0: unlimited.
        launch_burst: largest number of runs started at once within that rate.
        processes: how many runs with a process of their own a launcher executes at a time, without those whose program
            works in a cluster; a quarter more for namespaces and pools without any. 0: two per core, at least 4.
        cluster_processes: likewise of programs with `deploy_mode` cluster, whose processes here only watch them. 0:
            eight per core, at least 16.
        clusters: clusters whose load can be queried: comma-separated `name=URL`, URLs as in `spark/clusters.py`.
        emit_url: where programs of runs send their events: an API or the log; default: the API on their launcher's
            machine. When it is unreachable, events are spooled in `<data_dir>/spool/<run>`, which launchers drain.
        log_limit: most bytes of a run's log on the disk; the middle of a longer one is left out. 0: no limit.
        warm_starts: whether launchers keep processes with imported libraries, from which runners and Python programs
            are forked (Linux): `true` or `false`.
    """

    heartbeat: timedelta = setting(timedelta(seconds=2), positive_duration())
    lost_after: timedelta = setting(timedelta(seconds=15), positive_duration())
    attempts: int = setting(3, number(1), variable="run_attempts")
    launches_per_second: int = setting(20, number(0, zero="unlimited"))
    launch_burst: int = setting(100, number(1))
    processes: int = setting(0, number(0, MOST_SLOTS, zero="by cores"))
    cluster_processes: int = setting(0, number(0, MOST_SLOTS, zero="by cores"))
    clusters: Mapping[str, str] = setting("", _clusters)
    emit_url: str = setting("", url("a URL such as http://host:8765"))
    log_limit: int = 64 * 1024 * 1024
    warm_starts: bool = True

    def __post_init__(self) -> None:
        require(self.lost_after > self.heartbeat, "lost_after", "must be longer than the heartbeat")
        room = self.log_limit == 0 or self.log_limit >= 1 << 20
        require(room, "log_limit", "must be 0 or at least 1048576 bytes")

    @property
    def pace(self) -> Pace | None:
        """How fast runs are started; None without a limit."""
        return Pace(self.launches_per_second, self.launch_burst) if self.launches_per_second else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings(SettingGroup):
    """Programs of users, and what they may reach.

    Attributes:
        bundle_limit: largest bundle of a program's folder, in bytes.
        secrets: which secrets programs may refer to: comma-separated `namespace=reference`, such as
            `shop=env:SHOP_*,*=file:/run/secrets/`; `*` is any namespace. Programs do not inherit these variables.
        environment: the variables of a launcher that its programs get: comma-separated names, where `*` stands for any
            characters. With `dev` the default is `*`: all of its caller, without secrets.
        run_as: the users of a launcher's machine as whom programs run: comma-separated `namespace=user`,
            `namespace.app.program=user`, `*=user`; empty: all run as the launcher. The launcher is the superuser.
        proxy_user: as whom programs run on YARN, in the same form; the submitting user may impersonate them.
        outgoing_networks: comma-separated networks beside public addresses to which HTTP programs, queues and webhooks
            may send, such as `10.0.0.0/8`; empty: none, in `streamsched dev` loopback.
        outgoing_proxy: URL of the proxy through which they send to other addresses than these; empty: none.
    """

    bundle_limit: int = setting(64 * 1024 * 1024, number(1024, unit=" bytes"))
    secrets: Sequence[SecretRule] = setting("", parse_rules)
    environment: Sequence[str] = setting(DEFAULT, parse_names, variable="program_environment")
    run_as: ProgramUsers = setting("", ProgramUsers.parse)
    proxy_user: ProgramUsers = setting("", ProgramUsers.parse)
    outgoing_networks: Sequence[Network] = setting("", parse_networks)
    outgoing_proxy: str = setting("", _HTTP, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings(SettingGroup):
    """Spark programs.

    Attributes:
        master: default master of Spark programs.
        connect: URL (`sc://host:port`) of the Spark Connect server of programs with `deploy_mode` connect; empty: each
            launcher's machine starts its own, for `spark_master`.
        connect_memory: heap of an own server.
        connect_runs, connect_resident: an own server is replaced after so many runs, or when it takes so many bytes of
            memory.
        connect_idle: an own server ends after so long without a run.
        metrics: whether Spark programs write an event log into `data_dir` while they run, from which the metrics of
            their runs are read: `true` or `false`.
        event_logs: a folder that launchers and clusters share, as a path or `file:///…`, into which drivers in clusters
            write their event logs while they run; empty: these runs have no metrics.
        prepared_drivers: Spark drivers that a launcher keeps for the next runs of programs in client mode, each a JVM
            with its memory (Linux); 0: none. With `dev` the default is 1.
    """

    VARIABLES: ClassVar[str] = "spark_"

    master: str = "local[*]"
    connect: str = setting("", url("sc://host:port", "sc"))
    connect_memory: str = "1g"
    connect_runs: int = setting(500, number(1))
    connect_resident: int = 4 * 1024 * 1024 * 1024
    connect_idle: timedelta = setting(timedelta(minutes=30), positive_duration())
    metrics: bool = True
    event_logs: Path | None = setting("", folder_of)
    prepared_drivers: int = setting(0, number(0, 1000, zero="none"), variable="prepared_drivers")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings(SettingGroup):
    """Tasks.

    Attributes:
        in_flight: most tasks of all queues that a launcher delivers at a time; one queue takes at most half of what the
            others leave.
        streams_host, streams_port: address at which a launcher gives tasks to workers; port 0: any free one.
        streams_url: URL of that address for workers; default: this machine's name, or its loopback address.
    """

    VARIABLES: ClassVar[str] = "task_"

    in_flight: int = setting(2000, number(1), variable="tasks_in_flight")
    streams_host: str = "127.0.0.1"
    streams_port: int = setting(0, port("any free one"))
    streams_url: str = setting("", _HTTP)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailVariables(SettingGroup):
    """Mail.

    Attributes:
        url: the mail server: `smtp://host:587` (with STARTTLS), `smtps://host:465` or `smtp+plain://host:25`; empty: no
            mail is sent.
        user: as whom a launcher logs in there; empty: it does not.
        secret: reference to the password, such as `file:/run/secrets/smtp`.
        sender: the sender's address.
        rules: to whom mail may be sent: comma-separated `namespace=address` or `namespace=@domain`, such as
            `*=@example.org`; `*` is any namespace. Empty: no mail is sent.
    """

    VARIABLES: ClassVar[str] = "smtp_"

    url: MailServer | None = setting("", parse_mail_server)
    user: str = ""
    secret: Secret | None = setting("", parse_secret)
    sender: str = setting("", parse_sender, variable="mail_from")
    rules: Sequence[MailRule] = setting("", parse_mail_rules, variable="mail_to")

    def __post_init__(self) -> None:
        require(bool(self.sender or not self.url), "mail_from", "must be set with a mail server")


def _dialects() -> Mapping[str, type[SettingGroup]]:
    """The settings of dialects, by their names."""
    return {part.name: settings for part, settings in additions("settings")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every process of an installation has. Durations have the format of `domain.time.duration`, or are `0`.

    Attributes:
        texts: the texts of the variables that are set, by the names of `given`.
        database_url: PostgreSQL, which stores schedules, jobs and runs.
        broker_url: the log; default: the database.
        shards: number of shards; `streamsched reshard` changes it.
        data_dir: folder of run logs, Spark's scratch files and the embedded PostgreSQL.
        lease: how long a shard, a role or inline runs stay with a process that does not renew its lease.
        traces: whether spans of events, jobs and runs are sent to a receiver of OpenTelemetry (`OTEL_EXPORTER_OTLP_*`):
            `true` or `false`. Every process of an installation has the same.
        dialects: those of dialects (`of`).
    """

    texts: Mapping[str, str] = field(repr=False, compare=False)
    database_url: str = setting("", url("postgresql://…", "postgres", "postgresql"))
    broker_url: str = setting("", url("a URL such as postgresql://… or kafka://…"))
    shards: int = setting(4, number(1, 1024))
    data_dir: Path = Path(".streamsched")
    lease: timedelta = setting(timedelta(seconds=6), positive_duration())
    traces: bool = False
    log: LogSettings = field(default_factory=LogSettings)
    health: HealthSettings = field(default_factory=HealthSettings)
    keep: KeepSettings = field(default_factory=KeepSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    openid: OpenIdSettings = field(default_factory=OpenIdSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    programs: ProgramSettings = field(default_factory=ProgramSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    dialects: Mapping[type[SettingGroup], SettingGroup] = field(
        default_factory=lambda: {kind: kind() for kind in _dialects().values()}, metadata={"groups": _dialects}
    )
    smtp: MailVariables = field(default_factory=MailVariables)

    def __post_init__(self) -> None:
        if not self.broker_url:
            object.__setattr__(self, "broker_url", self.database_url)

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **given: object) -> Self:
        """Settings from `STREAMSCHED_*`. What is `given` and not None (command line options), by the names of the
        variables in lower case without `STREAMSCHED_`, takes precedence.

        Raises:
            ConfigurationError: a variable is missing, malformed, or out of bounds; the message names it.
        """
        known = {each.name: each for each in variables_of(cls)}
        texts = {name: environ.get(variable(name), "").strip() for name in known}
        texts |= {name: written_value(value) for name, value in given.items() if value is not None}
        texts = {name: text for name, text in texts.items() if text}
        if "database_url" not in texts:
            raise ConfigurationError(
                f"{variable('database_url')} is not set: the URL of PostgreSQL, such as postgresql://host/streamsched "
                "(`streamsched dev` brings its own)"
            )
        values: dict[str, dict[str, Any]] = {}
        for name, text in texts.items():
            values.setdefault(known[name].group, {})[known[name].field.name] = known[name].read(text)
        own, kinds = values.pop("", {}), {each.group: each.settings for each in known.values()}
        dialects = {kind: kind(**values.pop(name, {})) for name, kind in _dialects().items()}
        groups = {name: kinds[name](**group) for name, group in values.items()}
        return cls(texts=texts, dialects=dialects, **own, **groups)

    def group(self, kind: type[_Group]) -> _Group:
        """The settings of a dialect."""
        return cast("_Group", self.dialects[kind])

    def replace(self, **given: object) -> Self:
        """These settings with others `given`, as in `from_env`."""
        return self.from_env({}, **{**self.texts, **given})

    @property
    def mail(self) -> MailSettings | None:
        """How mail is sent; None: not at all."""
        smtp = self.smtp
        return smtp.url and MailSettings(smtp.url, smtp.sender, smtp.rules, smtp.user, smtp.secret)

    @property
    def installation(self) -> str:
        """A display name of the installation: host and name of its database."""
        parts = urlsplit(self.database_url)
        host = dict(parse_qsl(parts.query)).get("host") or parts.netloc.rpartition("@")[2]
        return f"{host or 'localhost'}/{parts.path.lstrip('/')}"

    @property
    def emit_url(self) -> str:
        """Where programs of runs send their events."""
        return self.runs.emit_url or url_here(self.api.host, self.api.port)

    def variables(self) -> dict[str, str]:
        """The variables from which `from_env` reads equal settings, for a child process."""
        return {variable(name): text for name, text in self.texts.items()}
