"""The URL of a Kafka: all of it is read, nothing unknown is passed over, and no password comes out again."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamsched_brokers.kafka.address import Address

from streamsched.domain.errors import ConfigurationError
from streamsched.log.drivers import open_broker


def test_hosts_and_ports() -> None:
    assert Address.parse("kafka://a:1,b:2/").servers == ("a:1", "b:2")
    assert Address.parse("kafka://a").servers == ("a:9092",)


def test_a_user_means_sasl_over_tls_by_default() -> None:
    secured = Address.parse("kafka://me:p%40ss@a:1/")

    assert (secured.user, secured.password, secured.security) == ("me", "p@ss", "sasl_ssl")
    assert Address.parse("kafka://me:x@a/?security=sasl_plaintext").security == "sasl_plaintext"
    assert Address.parse("kafka://a/").security == "plaintext"


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from the file\n")

    assert Address.parse(f"kafka://me@a/?passwordfile={tmp_path}/secret").password == "from the file"


def test_options_are_read_in_their_units() -> None:
    address = Address.parse(
        "kafka://a/?prefix=acme.&replication=3&min_insync=2&transaction_seconds=2.5&max_record_bytes=2097152"
        "&compression=gzip&topic.segment.ms=100&topic.retention.bytes=9"
    )

    assert (address.prefix, address.replication, address.min_insync) == ("acme.", 3, 2)
    assert (address.transaction_seconds, address.max_record_bytes, address.compression) == (2.5, 2 << 20, "gzip")
    assert address.topic == {"segment.ms": "100", "retention.bytes": "9"}


def test_topics_have_the_names_that_are_given_to_them() -> None:
    address = Address.parse("kafka://a/?prefix=acme.&name.partitions=lake-commits&name.events=acme.signals2")

    for topic, name in {"partitions": "lake-commits", "events": "acme.signals2", "signals": "acme.signals"}.items():
        assert (address.real_name(topic), address.own_name(name)) == (name, topic)


async def test_a_name_for_a_topic_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"name\.partition, but no topic is called so; ours are dead-letter"):
        await open_broker("kafka://127.0.0.1:1/?name.partition=x")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("kafka://", "kafka://host:port"),
        ("postgresql://a/", "kafka://host:port"),
        ("kafka://a/?retention=1", "unknown option 'retention'; known are cafile"),
        ("kafka://a/?replication=many", "replication=many, which is not a number"),
        ("kafka://a/?security=tls", "security must be one of plaintext, ssl"),
        ("kafka://me:x@a/?mechanism=MD5", "mechanism must be one of PLAIN"),
        ("kafka://a/?security=sasl_ssl", "user:password@"),
        ("kafka://me@a/", "user:password@"),
        ("kafka://me@a/?passwordfile=/nowhere/x", "password cannot be read"),
        ("kafka://a/?transaction_seconds=0", "at least 1"),
        ("kafka://a/?name.events=a/b", "name.events must be a name that Kafka permits"),
        ("kafka://a/?name.events=..", "a name that Kafka permits"),
        ("kafka://a/?name.events=x&name.launch=x", "another name than 'x'"),
        ("kafka://a/?compression=rar", "compression must be gzip"),
    ],
)
def test_what_is_wrong_is_said(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says.replace("/", "/")):
        Address.parse(url)


def test_a_certificate_that_is_not_there_is_said() -> None:
    with pytest.raises(ConfigurationError, match="certificate"):
        Address.parse("kafka://a/?security=ssl&cafile=/nowhere/ca.pem").client_options()


def test_no_password_is_shown() -> None:
    address = Address.parse("kafka://me:verysecret@a/")

    assert "verysecret" not in repr(address)
    with pytest.raises(ConfigurationError) as refused:
        Address.parse("kafka://me:verysecret@a/?x=1")
    assert "verysecret" not in str(refused.value)
