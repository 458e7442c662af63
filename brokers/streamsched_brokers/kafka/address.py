"""The URL of a Kafka cluster: its servers, credentials, and settings of topics.

kafka://host:9092,host:9092/?prefix=acme.&replication=3
kafka://host:9092/?name.partitions=lake-commits&name.program-status=runs
kafka://user:password@host:9093/?security=sasl_ssl&mechanism=SCRAM-SHA-512&cafile=/etc/kafka/ca.pem
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from streamsched.domain.errors import ConfigurationError

_SECURITY: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_COMPRESSION: Final = ("gzip", "snappy", "lz4", "zstd")
_TOPIC: Final = "topic."
_NAME: Final = "name."
_LEGAL: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_PORT: Final = 9092

#: The timeout of one request in seconds; afterwards its connection is closed.
REQUEST_SECONDS: Final = 10.0
#: The throughput of one writer on a slow Kafka cluster.
_BYTES_PER_SECOND: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A Kafka cluster as an installation uses it. Every field except the first three is an option of the URL.

    Attributes:
        security: the protocol: plaintext, ssl, sasl_plaintext or sasl_ssl (the default when a user is given).
        passwordfile: a file with the password, instead of a password in the URL.
        cafile: PEM file of the authority that signed the brokers' certificates; by default the system's authorities.
        prefix: of every topic, transactional id and group, for a shared cluster.
        replication: the replication factor of topics; an existing topic with another one is refused. By default
            Kafka's `default.replication.factor`, or three if there are so many brokers; existing topics are accepted.
        min_insync: replicas that must have a record before it is acknowledged; by default one less than `replication`.
        transaction_seconds: how long the transaction of a stopped writer may block readers, and so the limit of a
            commit: a transaction of more than 16 MiB per second of this is refused.
        max_record_bytes: the largest record that topics accept.
        topic: topic settings that override the driver's: `topic.segment.bytes=…`.
        name: names of topics in the cluster, where they are others than the prefix and ours: `name.partitions=…`.
    """

    servers: Sequence[str]
    user: str = ""
    password: str = field(default="", repr=False)
    security: str = ""
    mechanism: str = "SCRAM-SHA-512"
    passwordfile: str = ""
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""
    prefix: str = ""
    replication: int | None = None
    min_insync: int | None = None
    transaction_seconds: float = 10.0
    max_record_bytes: int = 16 << 20
    compression: str = ""
    topic: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    name: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def real_name(self, topic: str) -> str:
        """The name of a topic of ours in the cluster."""
        return self.name.get(topic) or self.prefix + topic

    def own_name(self, name: str) -> str:
        """The topic of ours that has this name in the cluster."""
        own = next((topic for topic, given in self.name.items() if given == name), None)
        return name.removeprefix(self.prefix) if own is None else own

    @property
    def max_transaction_bytes(self) -> float:
        """The largest transaction that a slow Kafka cluster completes in time; a larger one might never succeed."""
        return self.transaction_seconds * _BYTES_PER_SECOND

    def __post_init__(self) -> None:
        if not self.security:
            object.__setattr__(self, "security", "sasl_ssl" if self.user else "plaintext")
        if self.passwordfile:
            object.__setattr__(self, "password", _text(self.passwordfile))
        _require(self.security in _SECURITY, "security", f"one of {', '.join(_SECURITY)}")
        _require(self.mechanism in _MECHANISMS, "mechanism", f"one of {', '.join(_MECHANISMS)}")
        _require(not self.compression or self.compression in _COMPRESSION, "compression", ", ".join(_COMPRESSION))
        _require(self.replication is None or self.replication > 0, "replication", "at least 1")
        _require(self.min_insync is None or self.min_insync > 0, "min_insync", "at least 1")
        _require(self.transaction_seconds >= 1, "transaction_seconds", "at least 1")
        _require(self.max_record_bytes >= 1 << 20, "max_record_bytes", f"at least {1 << 20}")
        for topic, given in self.name.items():
            _require(bool(_LEGAL.fullmatch(given)), f"{_NAME}{topic}", "a name that Kafka permits")
            twice = list(self.name.values()).count(given) > 1
            _require(not twice, f"{_NAME}{topic}", f"another name than '{given}', which another topic has")
        sasl = self.security.startswith("sasl")
        _require(
            not sasl or bool(self.user and self.password), "security", "sasl_… only with user:password@ in the URL"
        )

    @classmethod
    def parse(cls, url: str) -> Address:
        """Reads the URL.

        Raises:
            ConfigurationError: not a kafka:// URL, or an option is unknown or out of bounds. The message contains no
                password.
        """
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        servers = tuple(host if ":" in host else f"{host}:{_PORT}" for host in hosts.split(",") if host)
        if parts.scheme != "kafka" or not servers:
            raise ConfigurationError("the log's URL must be kafka://host:port,host:port/?option=value")
        user, _, password = login.partition(":")
        values: dict[str, Any] = {"user": unquote(user), "password": unquote(password)}
        for name, text in parse_qsl(parts.query, keep_blank_values=True):
            if name.startswith(_TOPIC):
                values.setdefault("topic", {})[name.removeprefix(_TOPIC)] = text
            elif name.startswith(_NAME):
                values.setdefault("name", {})[name.removeprefix(_NAME)] = text
            elif name in _READERS:
                values[name] = _read(name, text)
            else:
                known = ", ".join(sorted((*_READERS, "topic.…", "name.…")))
                raise ConfigurationError(f"the log's URL has an unknown option '{name}'; known are {known}")
        return cls(servers=servers, **values)

    def client_options(self) -> dict[str, Any]:
        """The arguments of every aiokafka client.

        Raises:
            ConfigurationError: a certificate cannot be read.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.servers),
            "client_id": "streamsched",
            "request_timeout_ms": int(REQUEST_SECONDS * 1000),
            "retry_backoff_ms": 50,
            "security_protocol": self.security.upper(),
        }
        if self.security.endswith("ssl"):
            options["ssl_context"] = self._ssl_context()
        if self.security.startswith("sasl"):
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return options

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.cafile or None)
            if self.certfile:
                context.load_cert_chain(self.certfile, self.keyfile or None)
        except OSError as exc:
            raise ConfigurationError(f"a certificate of the log's URL cannot be read: {exc}") from exc
        return context


_READERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        **dict.fromkeys(("security", "mechanism", "passwordfile", "cafile", "certfile", "keyfile", "prefix"), str),
        **dict.fromkeys(("replication", "min_insync", "max_record_bytes"), int),
        "compression": str,
        "transaction_seconds": float,
    }
)


def _read(name: str, text: str) -> object:
    try:
        return _READERS[name](text)
    except ValueError as exc:
        raise ConfigurationError(f"the log's URL has {name}={text}, which is not a number") from exc


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise ConfigurationError(f"the log's password cannot be read: {exc}") from exc


def _require(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise ConfigurationError(f"the log's URL: {name} must be {rule}")
