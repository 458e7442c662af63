"""`server.properties` of a small Kafka cluster on one machine, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: For tests: compaction and retention run many times a second instead of every few minutes.
BUSY_CLEANER: Final[Mapping[str, str]] = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.segment.delete.delay.ms": "200",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Ports of a node: for clients and other brokers, and for the controllers' quorum.

    Attributes:
        rack: where the node stands; copies of a partition are spread over racks.
        within: the command that runs the node's process elsewhere, such as `ip netns exec NAME`.
    """

    port: int
    quorum_port: int
    host: str = "127.0.0.1"
    rack: str = ""
    within: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL/SCRAM on the port for clients.

    Attributes:
        keystore: PEM file with the nodes' private key and certificate.
        truststore: PEM file with the certificate clients must trust.
        users: SCRAM-SHA-512 users and their passwords; the first is used between brokers.
    """

    keystore: Path
    truststore: Path
    users: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster: its nodes' addresses, its security if any, and properties that override those made here."""

    nodes: Sequence[Address]
    security: Security | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


def server_properties(shape: Shape, node: int, data: Path) -> str:
    """Properties of node 1, 2, … of the cluster: few threads, few partitions of internal topics, no start delays.

    Abandoned transactions, which block readers, are aborted within one second instead of ten.
    """
    at, nodes = shape.nodes[node - 1], len(shape.nodes)
    copies, safe = str(min(nodes, 3)), str(2 if nodes > 2 else 1)
    protocol = "SASL_SSL" if shape.security else "PLAINTEXT"
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{n}@{a.host}:{a.quorum_port}" for n, a in enumerate(shape.nodes, 1)),
        "controller.listener.names": "QUORUM",
        "inter.broker.listener.name": "CLIENTS",
        "listeners": f"CLIENTS://{at.host}:{at.port},QUORUM://{at.host}:{at.quorum_port}",
        "advertised.listeners": f"CLIENTS://{at.host}:{at.port}",
        "listener.security.protocol.map": f"CLIENTS:{protocol},QUORUM:PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "min.insync.replicas": safe,
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": safe,
        "transaction.state.log.num.partitions": "6",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": safe,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "3",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
        **({"broker.rack": at.rack} if at.rack else {}),
        **(_secured(shape.security) if shape.security else {}),
        **shape.extra,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _secured(security: Security) -> dict[str, str]:
    name, password = next(iter(security.users.items()))
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": (
            f'{scram} required username="{name}" password="{password}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(security.keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.truststore),
    }
