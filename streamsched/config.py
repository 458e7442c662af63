"""Settings, read once from a mapping such as the environment. Errors name the variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from streamsched.domain.addresses import Network, parse_networks
from streamsched.domain.constraints.pace import Pace
from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import DatasetRef
from streamsched.domain.notices.mail_rules import parse_mail_rules
from streamsched.domain.notices.mail_server import MailSettings, parse_mail_server, parse_secret, parse_sender
from streamsched.domain.programs.inherited_environment import DEFAULT, parse_names
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.domain.programs.secret_rules import SecretRule, parse_rules
from streamsched.setting_values import (
    LOOPBACK,
    PREFIX,
    check_hosts,
    check_issuer,
    check_locations,
    folder_of,
    read_value,
    require,
    url_here,
    variable,
    written_value,
)

_RENAMED: Final = f"{PREFIX}WEBHOOK_NETWORKS"

_LOG_FORMATS: Final = ("auto", "console", "json")
_ACCESS: Final = ("tokens", "open")
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
#: What port 0 means.
_PORTS: Final = {"health_port": "none"} | dict.fromkeys(
    ("api_port", "task_streams_port", "dapr_http_port", "dapr_grpc_port"), "any free one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One installation's settings; each field is read from the variable `STREAMSCHED_<FIELD>`. Durations have the
    format of `domain.time.duration`, or are `0`.

    Attributes:
        database_url: PostgreSQL, which stores schedules, jobs and runs.
        broker_url: the log; default: the database.
        shards: number of shards; `streamsched reshard` changes it.
        data_dir: folder of run logs, Spark's scratch files and the embedded PostgreSQL.
        emit_url: where programs of runs send their events: an API or the log; default: the API on their launcher's
            machine. When it is unreachable, events are spooled in `<data_dir>/spool/<run>`, which launchers drain.
        api_host, api_port: address of the API, with its health checks and metrics.
        api_access: `tokens`: requests need a token with the permission. `open`: any client that reaches the API
            may do everything; only with `api_host` on loopback.
        oidc_issuer: URL of an OpenID provider whose tokens the API accepts beside its own; empty: none. `https`, or on
            loopback `http`.
        oidc_audience: the audience (`aud`) of these tokens; required with an issuer.
        oidc_roles: what the provider's roles or groups give: comma-separated `value=role` or `value=role@namespace`,
            with the permission `shell` as `value=developer+shell@namespace`.
        oidc_roles_claim: the claim with these values; dots go into objects, as in `realm_access.roles`.
        oidc_name_claim: the claim that names the caller in the audit.
        oidc_algorithms: comma-separated algorithms that may sign these tokens.
        oidc_skew: how far the clocks of the provider and of this process may differ.
        oidc_client_id: this installation's client at the provider, with which people log in to the pages; empty: they
            log in with tokens of this installation only.
        oidc_client_secret: its secret; empty: a public client. Never printed.
        oidc_scopes: what a login asks for, separated by spaces; `openid` is among them.
        api_allowed_hosts: additional host names of the API, comma-separated, such as that of a proxy:
            `scheduler.example.org`, `*.example.org` for its subdomains, `*` for any. Always allowed: loopback names and
            addresses, `api_host`, the host of `emit_url`, and any IP address if `api_host` is 0.0.0.0 or ::.
        log_level, log_format: minimum level and format of logs; `auto` is `console` at a terminal, else `json`.
        spark_master: default master of Spark programs.
        spark_connect: URL (`sc://host:port`) of the Spark Connect server of programs with `deploy_mode` connect; empty:
            each launcher's machine starts its own, for `spark_master`.
        spark_connect_memory: heap of an own server.
        spark_connect_runs, spark_connect_resident: an own server is replaced after so many runs, or when it takes so
            many bytes of memory.
        spark_connect_idle: an own server ends after so long without a run.
        dedupe_horizon: how long a duplicate event id is recognised; a worker holds 33 bytes for each id.
        retention: how long the log keeps public records, signals, ready jobs, wake-ups, verdicts, late events and dead
            letters.
        verdicts_keep: how long verdicts of events are kept; 0 stores none.
        jobs_keep: how long ended jobs and runs are kept, with the decisions about them.
        nodes_keep: how long ended nodes of graphs are kept; one that is gone runs again when it is needed.
        audit_keep: how long the history of schedules, programs and groups is kept.
        health_host, health_port: address of `/health/live`, `/health/ready` and `/metrics` of workers and launchers;
            port 0: none. An API serves them there in addition to its own port.
        lease: how long a shard, a role or inline runs stay with a process that does not renew its lease.
        stuck_after: the worker ends itself when a shard, or the whole worker, makes no progress for so long; 0: never.
        heartbeat: interval between two heartbeats of a run.
        lost_after: after so long without a heartbeat, the run's process is checked; the run is lost if it has ended.
        clusters: clusters whose load can be queried: comma-separated `name=URL`, URLs as in `spark/clusters.py`.
        lineage_datasets: datasets of locations that OpenLineage events name: comma-separated `location=dataset`, such
            as `s3://lake/flights=default.flights` or `/data/logs=default.logs`.
        run_attempts: most runs of a job when runs are lost.
        launches_per_second: long-term rate limit of run starts, for all launchers together; 0: unlimited.
        launch_burst: largest number of runs started at once within that rate.
        processes: how many runs with a process of their own a launcher executes at a time, without those whose program
            works in a cluster; a quarter more for namespaces and pools without any. 0: two per core, at least 4.
        cluster_processes: likewise of programs with `deploy_mode` cluster, whose processes here only watch them. 0:
            eight per core, at least 16.
        body_limit: largest request body in bytes.
        task_topics: topics with tasks of PagerDuty's clients: comma-separated `topic`, or `topic=queue`.
        task_log_url: the log of these topics; default: the log.
        tasks_in_flight: most tasks of all queues that a launcher delivers at a time; one queue takes at most half of
            what the others leave.
        task_streams_host, task_streams_port: address at which a launcher gives tasks to workers; port 0: any free one.
        task_streams_url: URL of that address for workers; default: this machine's name, or its loopback address.
        dapr_app_id: app whose Dapr sidecar this process replaces; empty: none. Its jobs are in queue
            `dapr.<dapr_namespace>.<dapr_app_id>`.
        dapr_namespace: namespace of the app.
        dapr_host, dapr_http_port, dapr_grpc_port: address of Dapr's jobs API; port 0: any free port.
        dapr_app: where the app gets its jobs: comma-separated addresses of its instances, as launchers reach them, such
            as `grpc://127.0.0.1:3010` or `http://127.0.0.1:8080`; empty: none here.
        dapr_api_token: token that clients of that API must send; empty: none.
        dapr_app_token: token that is sent to the app; empty: none.
        dapr_scheduler: `host:port` at which this launcher is Dapr's scheduler, as sidecars reach it; empty: it is none.
            Without TLS.
        dapr_strict: answers as Dapr where this product would answer better: 500 for a missing job, for example.
        warm_starts: whether launchers keep processes with imported libraries, from which runners and Python programs
            are forked (Linux): `true` or `false`.
        prepared_drivers: Spark drivers that a launcher keeps for the next runs of programs in client mode, each a JVM
            with its memory (Linux); 0: none. With `dev` the default is 1.
        bundle_limit: largest bundle of a program's folder, in bytes.
        secrets: which secrets programs may refer to: comma-separated `namespace=reference`, such as
            `shop=env:SHOP_*,*=file:/run/secrets/`; `*` is any namespace. Programs do not inherit these variables.
        outgoing_networks: comma-separated networks beside public addresses to which HTTP programs, queues and webhooks
            may send, such as `10.0.0.0/8`; empty: none, in `streamsched dev` loopback.
        outgoing_proxy: URL of the proxy through which they send to other addresses than these; empty: none.
        program_environment: the variables of a launcher that its programs get: comma-separated names, where `*` stands
            for any characters. With `dev` the default is `*`: all of its caller, without secrets.
        run_as: the users of a launcher's machine as whom programs run: comma-separated `namespace=user`,
            `namespace.app.program=user`, `*=user`; empty: all run as the launcher. The launcher is the superuser.
        proxy_user: as whom programs run on YARN, in the same form; the submitting user may impersonate them.
        log_limit: most bytes of a run's log on the disk; the middle of a longer one is left out. 0: no limit.
        pages_url: where people open the pages, such as `https://scheduler.example.org`, for links in notifications;
            empty: they have none, and with `dev` those of this machine.
        smtp_url: the mail server: `smtp://host:587` (with STARTTLS), `smtps://host:465` or `smtp+plain://host:25`;
            empty: no mail is sent.
        smtp_user: as whom a launcher logs in there; empty: it does not.
        smtp_secret: reference to the password, such as `file:/run/secrets/smtp`.
        mail_from: the sender's address.
        mail_to: to whom mail may be sent: comma-separated `namespace=address` or `namespace=@domain`, such as
            `*=@example.org`; `*` is any namespace. Empty: no mail is sent.
        spark_metrics: whether Spark programs write an event log into `data_dir` while they run, from which the metrics
            of their runs are read: `true` or `false`.
        spark_event_logs: a folder that launchers and clusters share, as a path or `file:///…`, into which drivers in
            clusters write their event logs while they run; empty: these runs have no metrics.
        traces: whether spans of events, jobs and runs are sent to a receiver of OpenTelemetry (`OTEL_EXPORTER_OTLP_*`):
            `true` or `false`. Every process of an installation has the same.
        update_schedules: whether a deployment that does not say so updates schedules that exist: `true` or `false`.
    """

    database_url: str
    broker_url: str = ""
    shards: int = 4
    data_dir: Path = Path(".streamsched")
    api_host: str = "127.0.0.1"
    api_port: int = 8765
    api_access: str = "tokens"
    api_allowed_hosts: str = ""
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_roles: str = ""
    oidc_roles_claim: str = "roles"
    oidc_name_claim: str = "sub"
    oidc_algorithms: str = "RS256,ES256,EdDSA"
    oidc_skew: timedelta = timedelta(seconds=30)
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_scopes: str = "openid profile"
    health_host: str = "127.0.0.1"
    health_port: int = 0
    emit_url: str = ""
    spark_master: str = "local[*]"
    spark_connect: str = ""
    spark_connect_memory: str = "1g"
    spark_connect_runs: int = 500
    spark_connect_resident: int = 4 * 1024 * 1024 * 1024
    spark_connect_idle: timedelta = timedelta(minutes=30)
    dedupe_horizon: timedelta = timedelta(days=4)
    retention: timedelta = timedelta(days=7)
    verdicts_keep: timedelta = timedelta(days=7)
    jobs_keep: timedelta = timedelta(days=30)
    nodes_keep: timedelta = timedelta(days=365)
    audit_keep: timedelta = timedelta(days=365)
    lease: timedelta = timedelta(seconds=6)
    stuck_after: timedelta = timedelta(seconds=60)
    heartbeat: timedelta = timedelta(seconds=2)
    lost_after: timedelta = timedelta(seconds=15)
    clusters: str = ""
    lineage_datasets: str = ""
    run_attempts: int = 3
    launches_per_second: int = 20
    launch_burst: int = 100
    processes: int = 0
    cluster_processes: int = 0
    body_limit: int = 16 * 1024 * 1024
    dapr_app_id: str = ""
    dapr_namespace: str = "default"
    dapr_host: str = "127.0.0.1"
    dapr_http_port: int = 3500
    dapr_grpc_port: int = 50001
    dapr_app: str = ""
    dapr_api_token: str = ""
    dapr_app_token: str = ""
    dapr_scheduler: str = ""
    dapr_strict: bool = False
    update_schedules: bool = True
    warm_starts: bool = True
    prepared_drivers: int = 0
    secrets: str = ""
    program_environment: str = DEFAULT
    run_as: str = ""
    proxy_user: str = ""
    log_limit: int = 64 * 1024 * 1024
    bundle_limit: int = 64 * 1024 * 1024
    outgoing_networks: str = ""
    outgoing_proxy: str = field(default="", repr=False)
    pages_url: str = ""
    smtp_url: str = ""
    smtp_user: str = ""
    smtp_secret: str = ""
    mail_from: str = ""
    mail_to: str = ""
    spark_metrics: bool = True
    spark_event_logs: str = ""
    traces: bool = False
    task_topics: str = ""
    task_log_url: str = ""
    tasks_in_flight: int = 2000
    task_streams_host: str = "127.0.0.1"
    task_streams_port: int = 0
    task_streams_url: str = ""
    log_level: str = "info"
    log_format: str = "auto"

    def __post_init__(self) -> None:
        if not self.broker_url:
            object.__setattr__(self, "broker_url", self.database_url)
        require(
            self.database_url.startswith(("postgres://", "postgresql://")), "database_url", "must be postgresql://…"
        )
        require("://" in self.broker_url, "broker_url", "must be a URL such as postgresql://… or kafka://…")
        require(1 <= self.shards <= 1024, "shards", "must be from 1 to 1024")
        for name, zero in _PORTS.items():
            require(0 <= getattr(self, name) <= 65535, name, f"must be from 0 ({zero}) to 65535")
        for name in ("task_streams_url", "outgoing_proxy", "pages_url"):
            url = getattr(self, name)
            require(not url or url.startswith(("http://", "https://")), name, "must be http://… or https://…")
        require(not self.emit_url or "://" in self.emit_url, "emit_url", "must be a URL such as http://host:8765")
        require(
            not self.spark_connect or self.spark_connect.startswith("sc://"), "spark_connect", "must be sc://host:port"
        )
        require(0 <= self.prepared_drivers <= 1000, "prepared_drivers", "must be from 0 (none) to 1000")
        named = self.cluster_urls()
        require(all("://" in url for url in named.values()), "clusters", "must be name=URL,name=URL")
        check_locations(self.lineage_datasets)
        require(self.launches_per_second >= 0, "launches_per_second", "must be at least 0 (unlimited)")
        for name in ("launch_burst", "run_attempts", "spark_connect_runs", "tasks_in_flight"):
            require(getattr(self, name) >= 1, name, "must be at least 1")
        for name in ("processes", "cluster_processes"):
            require(0 <= getattr(self, name) <= MOST_SLOTS, name, f"must be 0 (by cores) to {MOST_SLOTS}")
        require(self.log_limit == 0 or self.log_limit >= 1 << 20, "log_limit", "must be 0 or at least 1048576 bytes")
        for limit in ("body_limit", "bundle_limit"):
            require(getattr(self, limit) >= 1024, limit, "must be at least 1024 bytes")
        require(self.api_access in _ACCESS, "api_access", f"must be one of {', '.join(_ACCESS)}")
        require(
            self.api_access == "tokens" or self.api_host in LOOPBACK,
            "api_access",
            f"must be `tokens` when the API listens on {self.api_host}, which is not loopback",
        )
        check_issuer(self.oidc_issuer, self.oidc_audience, self.oidc_roles)
        require(self.oidc_skew >= timedelta(0), "oidc_skew", "must not be negative")
        require(bool(self.oidc_issuer or not self.oidc_client_id), "oidc_client_id", "must be set with an issuer")
        require("openid" in self.oidc_scopes.split(), "oidc_scopes", "must contain `openid`")
        check_hosts(self.api_allowed_hosts)
        require(not self.task_log_url or "://" in self.task_log_url, "task_log_url", "must be a URL such as kafka://…")
        for name, parse in (
            ("secrets", parse_rules),
            ("outgoing_networks", parse_networks),
            ("program_environment", parse_names),
            ("run_as", ProgramUsers.parse),
            ("proxy_user", ProgramUsers.parse),
            ("spark_event_logs", folder_of),
            ("mail_to", parse_mail_rules),
            ("smtp_url", parse_mail_server),
            ("mail_from", parse_sender),
            ("smtp_secret", parse_secret),
        ):
            try:
                parse(getattr(self, name))
            except InvalidDefinitionError as exc:
                raise ConfigurationError(f"{variable(name)} {exc.reason}") from exc
        require(bool(self.mail_from or not self.smtp_url), "mail_from", "must be set with a mail server")
        for topic, queue in self.task_queues().items():
            require(bool(topic and queue), "task_topics", "must be topic=queue,topic=queue")
        positive = (
            "dedupe_horizon retention jobs_keep nodes_keep audit_keep lease heartbeat lost_after spark_connect_idle"
        )
        for name in positive.split():
            require(getattr(self, name) > timedelta(0), name, "must be longer than 0")
        require(self.stuck_after >= timedelta(0), "stuck_after", "must not be negative (0: never)")
        require(self.verdicts_keep >= timedelta(0), "verdicts_keep", "must not be negative")
        require(self.lost_after > self.heartbeat, "lost_after", "must be longer than the heartbeat")
        require(self.log_level in _LOG_LEVELS, "log_level", f"must be one of {', '.join(_LOG_LEVELS)}")
        require(self.log_format in _LOG_FORMATS, "log_format", f"must be one of {', '.join(_LOG_FORMATS)}")

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **given: object) -> Self:
        """Settings from `STREAMSCHED_*`. Fields that are `given` and not None (command line options) take precedence.

        Raises:
            ConfigurationError: a variable is missing, malformed, or out of bounds; the message names it.
        """
        if environ.get(_RENAMED, "").strip():
            new = variable("outgoing_networks")
            raise ConfigurationError(
                f"{_RENAMED} is now {new}, which holds for HTTP programs and queues too: rename it"
            )
        values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for each in fields(cls):
            text = environ.get(variable(each.name), "").strip()
            if text and each.name not in values:
                try:
                    values[each.name] = read_value(str(each.type), text)
                except ValueError as exc:
                    raise ConfigurationError(f"{variable(each.name)}: {exc}") from exc
        if "database_url" not in values:
            raise ConfigurationError(
                f"{variable('database_url')} is not set: the URL of PostgreSQL, such as postgresql://host/streamsched "
                "(`streamsched dev` brings its own)"
            )
        return cls(**values)

    def networks(self) -> Sequence[Network]:
        """Where definitions may send to, beside public addresses."""
        return parse_networks(self.outgoing_networks)

    def mail(self) -> MailSettings | None:
        """How mail is sent; None: not at all."""
        server = parse_mail_server(self.smtp_url)
        if server is None:
            return None
        rules, secret = parse_mail_rules(self.mail_to), parse_secret(self.smtp_secret)
        return MailSettings(server, self.mail_from, rules, self.smtp_user, secret)

    def secret_rules(self) -> Sequence[SecretRule]:
        """Which secrets programs may refer to."""
        return parse_rules(self.secrets)

    def program_names(self) -> Sequence[str]:
        """The names of the variables that programs get; with `*` in them."""
        return parse_names(self.program_environment)

    def cluster_urls(self) -> dict[str, str]:
        """The URL of each cluster's probe, by cluster name."""
        pairs = (each.partition("=") for each in self.clusters.split(",") if each.strip())
        return {name.strip(): url.strip() for name, _, url in pairs}

    def datasets_by_location(self) -> dict[str, DatasetRef]:
        """The dataset of each location of `lineage_datasets`; a path is `file` and the path, as in OpenLineage."""
        pairs = (each.rpartition("=") for each in self.lineage_datasets.split(",") if each.strip())
        stripped = ((location.strip().rstrip("/"), name.strip()) for location, _, name in pairs)
        return {
            f"file{location}" if location.startswith("/") else location: DatasetRef.parse(name)
            for location, name in stripped
        }

    def task_queues(self) -> dict[str, str]:
        """The queue of each topic with tasks, by topic."""
        pairs = (each.partition("=") for each in self.task_topics.split(",") if each.strip())
        return {topic.strip(): (queue.strip() if sign else topic.strip()) for topic, sign, queue in pairs}

    @property
    def pace(self) -> Pace | None:
        """How fast runs are started; None without a limit."""
        return Pace(self.launches_per_second, self.launch_burst) if self.launches_per_second else None

    @property
    def installation(self) -> str:
        """A display name of the installation: host and name of its database."""
        parts = urlsplit(self.database_url)
        host = dict(parse_qsl(parts.query)).get("host") or parts.netloc.rpartition("@")[2]
        return f"{host or 'localhost'}/{parts.path.lstrip('/')}"

    def runs_emit_to(self) -> str:
        """`emit_url`, or its default."""
        return self.emit_url or url_here(self.api_host, self.api_port)

    def variables(self) -> dict[str, str]:
        """The variables from which `from_env` reads equal settings, for a child process."""
        return {variable(each.name): written_value(getattr(self, each.name)) for each in fields(self)}
