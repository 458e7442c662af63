"""Which addresses webhooks may be sent to: public ones, and the networks that a setting names.

>>> networks = parse_networks("10.0.0.0/8")
>>> refused(ip_address("10.1.2.3"), networks) is None, refused(ip_address("127.0.0.1"), networks)
(True, '127.0.0.1 is not a public address')
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: IPv6 addresses that a translator sends to the IPv4 address in their last 32 bits.
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


def parse_networks(text: str) -> Sequence[Network]:
    """The networks of a comma-separated text, such as `10.0.0.0/8,127.0.0.1`.

    Raises:
        InvalidDefinitionError: one is malformed.
    """
    found: list[Network] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ip_network(each))
        except ValueError as exc:
            raise InvalidDefinitionError("$", f"must be networks such as 10.0.0.0/8: {exc}") from None
    return tuple(found)


def refused(address: Address, networks: Sequence[Network]) -> str | None:
    """Why nothing may be sent to an address; None: it may. An IPv4 address that it stands for decides."""
    embedded = _embedded(address)
    if any(each in network for network in networks for each in (address, embedded) if each.version == network.version):
        return None
    if embedded.is_global and not embedded.is_multicast and not embedded.is_reserved:
        return None
    return f"{address} is not a public address"


def refused_host(host: str, networks: Sequence[Network]) -> str | None:
    """As `refused`, of a host that is written as an address or is this machine; None also for other names, whose
    addresses are known when they are resolved.
    """
    bare = host.strip("[]").rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        bare = "127.0.0.1"
    try:
        return refused(ip_address(bare.partition("%")[0]), networks)
    except ValueError:
        return None


def _embedded(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)
