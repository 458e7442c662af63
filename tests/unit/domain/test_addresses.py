"""Which addresses are connected to on behalf of definitions."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.addresses import EVERYWHERE, parse_networks, refusal_reason, refused_host, refused_url
from streamsched.domain.errors import InvalidError

#: Addresses and names that are not public, in all spellings that resolvers read.
SPELLINGS = (
    *("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("100.100.100.200", "0.0.0.0", "0.1.2.3", "192.0.0.192", "192.0.0.9", "192.88.99.1", "168.63.129.16"),
    *("198.18.0.1", "192.0.2.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "[::1]", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1"),
    *("::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1"),
    *("64:ff9b:1:a9fe:a9:fe00::", "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "3fff::1"),
    *("2001:2::1", "5f00::1", "4000::1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "017700000001"),
    *("0x7f000001", "0x7f.1", "0x7F.0x0.0x0.0x1", "0177.0.0.1", "0177.0.0.0x1", "0", "0x", "127.0.0.01"),
    *("localhost", "LOCALHOST.", "x.localhost", "localhost.localdomain", "①②⑦.0.0.1", "127。0。0。1", "127%2e0.0.1"),
)
PUBLIC = (
    "8.8.8.8",
    "134744072",
    "2606:4700::1111",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
    "168.63.129.17",
    "172.32.0.1",
)
NAMES = (
    "hooks.example.com",
    "1.2.3.4.5",
    "0x7g.1",
    "256.1.1.1.1",
    "1.2.3.400",
    "08.1",
    "999999999999",
    "",
    "a..b",
    "{host}",
)


@pytest.mark.parametrize("host", SPELLINGS)
def test_an_address_that_is_not_public_is_refused_in_every_spelling(host: str) -> None:
    why = refused_host(host, ())
    assert why is not None
    assert why.endswith(" is not a public address; STREAMSCHED_OUTGOING_NETWORKS can permit it")
    assert refused_host(host, EVERYWHERE) is None


@pytest.mark.parametrize("host", [*PUBLIC, *NAMES])
def test_a_public_address_is_permitted_and_a_name_is_judged_when_it_is_resolved(host: str) -> None:
    assert refused_host(host, ()) is None


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_written_as_ipv6_is_judged_as_it_is(address: Any) -> None:
    for written in (f"::ffff:{address}", f"64:ff9b::{address}"):
        mapped = ip_address(written)
        assert (refusal_reason(mapped, ()) is None) == (refusal_reason(address, ()) is None)
        assert refusal_reason(mapped, parse_networks(f"{address}/32")) is None


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_as_one_number_as_it_is_with_dots(address: IPv4Address) -> None:
    plain = refused_host(str(address), ())
    for written in (str(int(address)), hex(int(address)), "0" + oct(int(address))[2:]):
        assert refused_host(written, ()) == plain


@given(st.ip_addresses())
def test_what_python_knows_as_not_global_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if refusal_reason(address, ()) is None and not (isinstance(address, IPv6Address) and address.ipv4_mapped):
        assert address.is_global
        assert not address.is_multicast


def test_networks_are_checked() -> None:
    assert refused_host("10.1.2.3", parse_networks("10.0.0.0/8, 127.0.0.1")) is None
    assert refused_host("10.1.2.3", parse_networks("127.0.0.0/8")) is not None
    for wrong in ("10.0.0.1/8", "all", "10.0.0.0/33"):
        with pytest.raises(InvalidError):
            parse_networks(wrong)


def test_the_host_of_a_url_is_judged_with_its_disguises() -> None:
    for url in ("http://u:p@127.0.0.1:9/x", "https://[::1]/", "http://LOCALHOST:80", "http://0x7f.1/?a=b"):
        assert refused_url(url, ()) is not None
    for url in ("https://example.org@hooks.example.com/", "http://[half", "http://{host}/x", "no url", ""):
        assert refused_url(url, ()) is None
