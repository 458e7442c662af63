"""A Kafka of our own: started, found by its folder, killed, started again on its data."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.downloads import MissingError
from compose.kafka.cluster import Cluster, NotReadyError, free_addresses
from compose.kafka.distribution import jars
from compose.kafka.properties import Address, Security, Shape, server_properties

THREE = Shape((Address(1, 2), Address(3, 4), Address(5, 6)))


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_three_nodes_vote_and_keep_three_copies(tmp_path: Path) -> None:
    reported = properties(server_properties(THREE, 2, tmp_path))

    assert reported["node.id"] == "2"
    assert reported["controller.quorum.voters"] == "1@127.0.0.1:2,2@127.0.0.1:4,3@127.0.0.1:6"
    assert reported["listeners"] == "CLIENTS://127.0.0.1:3,QUORUM://127.0.0.1:4"
    assert {reported["default.replication.factor"], reported["transaction.state.log.replication.factor"]} == {"3"}
    assert {reported["min.insync.replicas"], reported["transaction.state.log.min.isr"]} == {"2"}


def test_a_secured_node_asks_clients_for_a_password_under_tls(tmp_path: Path) -> None:
    security = Security(tmp_path / "key.pem", tmp_path / "trust.pem", {"admin": "secret"})
    reported = properties(server_properties(Shape((Address(1, 2),), security), 1, tmp_path))

    assert reported["listener.security.protocol.map"] == "CLIENTS:SASL_SSL,QUORUM:PLAINTEXT"
    assert reported["sasl.enabled.mechanisms"] == "SCRAM-SHA-512"


def test_what_is_given_wins(tmp_path: Path) -> None:
    reported = properties(server_properties(Shape((Address(1, 2),), extra={"num.io.threads": "9"}), 1, tmp_path))

    assert reported["num.io.threads"] == "9"


def test_without_jars_and_without_maven_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="apt-get install maven"):
        jars(tmp_path / "jars")


@pytest.fixture
def cluster(kafka: str, tmp_path: Path) -> Iterator[Cluster]:
    """Beside the session's broker, whose jars are there by now."""
    made = Cluster(tmp_path, Shape(free_addresses(1)))
    try:
        yield made
    finally:
        made.kill()


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(200)
def test_a_node_that_was_killed_goes_on_with_its_data(cluster: Cluster) -> None:
    cluster.start()
    first = cluster.pid(1)
    cluster.start()
    assert cluster.pid(1) == first, "it runs already"
    identity = (cluster.folder / "node-1" / "data" / "meta.properties").read_text()

    Cluster(cluster.folder, cluster.shape).kill()
    assert cluster.pid(1) is None

    cluster.start()
    assert cluster.pid(1) not in {None, first}
    assert (cluster.folder / "node-1" / "data" / "meta.properties").read_text() == identity

    cluster.stop()
    assert cluster.pid(1) is None
    assert (cluster.folder / "node-1" / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.long
@pytest.mark.kafka
def test_a_port_in_use_is_reported_with_the_nodes_own_words(cluster: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", cluster.shape.nodes[0].port))
        taken.listen()
        with pytest.raises(NotReadyError, match="Address already in use"):
            cluster.start()
