"""Which hosts the API answers to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.api.allowed_hosts import AllowedHosts, Authority, normalize


def accepts(hosts: AllowedHosts, text: str) -> bool:
    found = Authority.parse(text)
    return found is not None and hosts.accepts(found.host)


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "LOCALHOST:8765",
        "localhost.",
        "localhost.:1",
        "127.0.0.1",
        "127.8.9.1:80",
        "[::1]",
        "[::1]:8765",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:1",
    ],
)
def test_loopback_is_always_accepted(text: str) -> None:
    assert accepts(AllowedHosts.of(), text)


@pytest.mark.parametrize(
    "text",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "[::2]",
        "0x7f.1",
        "",
        ":80",
        "a b",
        "localhost:80:80",
        "user@localhost",
        "localhost/evil",
        "[::1",
        "[localhost]",
        "ⓛocalhost",
        "localhost:99999999",
    ],
)
def test_others_are_not(text: str) -> None:
    assert not accepts(AllowedHosts.of(), text)


def test_what_is_configured_is_accepted_on_any_port_and_in_any_case() -> None:
    hosts = AllowedHosts.of(["Sched.Example.org", "*.lab.example", " "], api_host="10.1.2.3", urls=["http://api:8765"])

    for good in ("sched.example.org", "SCHED.example.org.:99", "a.b.lab.example", "10.1.2.3:1", "api:8765"):
        assert accepts(hosts, good), good
    for bad in ("lab.example", "xlab.example", "example.org", "other", "10.1.2.4"):
        assert not accepts(hosts, bad), bad
    assert hosts.accepts_origin("sched.example.org")
    assert not hosts.accepts_origin("localhost")
    assert not hosts.accepts_origin("api")


def test_listening_everywhere_accepts_addresses_and_no_further_name() -> None:
    hosts = AllowedHosts.of(api_host="0.0.0.0")

    assert accepts(hosts, "10.0.0.7:8765")
    assert accepts(hosts, "[fe80::1]:1")
    assert not accepts(hosts, "evil.example")


def test_any_host_by_an_asterisk_is_no_origin() -> None:
    hosts = AllowedHosts.of(["*"])

    assert accepts(hosts, "evil.example")
    assert not hosts.accepts_origin("evil.example")


@pytest.mark.parametrize("text", ["host:80", "http://host", "a b", "*.*", "*"[:0] + "-"])
def test_what_is_no_host_cannot_be_listed(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        AllowedHosts.of([text])


@given(st.text(max_size=300) | st.text("[]:.01f%aé\x00", max_size=40))
def test_any_text_is_read_or_is_none_and_what_is_read_is_normal(text: str) -> None:
    found = Authority.parse(text)

    assert found is None or normalize(found.host) == found.host
    assert not accepts(AllowedHosts.of(), text) or found is not None
