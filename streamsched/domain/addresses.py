"""Which addresses are connected to on behalf of a definition: public ones, and the networks that a setting names.

The list is our own, so it is the same with each version of Python. An IPv4 address that an IPv6 address stands for
decides; of IPv6 everything is refused that is not global unicast.

>>> refusal_reason(ip_address("10.1.2.3"), parse_networks("10.0.0.0/8")) is None
True
>>> refused_host("2130706433", ())
'127.0.0.1 is not a public address; STREAMSCHED_OUTGOING_NETWORKS can permit it'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from streamsched.domain.errors import InvalidDefinitionError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: For addresses that the installation's own settings name.
EVERYWHERE: Final[Sequence[Network]] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
#: This machine.
LOOPBACK: Final = "127.0.0.0/8,::1/128"

#: IANA's registry of special addresses, and one that is public and answers inside a cloud only.
_REFUSED_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by customers of a provider
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # services of Azure's machines
            "169.254.0.0/16",  # link-local, with the metadata of clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, with the metadata of Oracle's cloud
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, with broadcast
        ),
    )
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
#: Of these.
_REFUSED_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, with Teredo, which has an IPv4 address in it
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which has an IPv4 address in it
            "3fff::/20",  # documentation
        ),
    )
)
#: The last 32 bits are an IPv4 address: mapped, and translated by NAT64.
_EMBEDDING: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
#: A part of an IPv4 address as C's `inet_aton` reads it: hexadecimal, octal or decimal.
_PART: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


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


def is_in_networks(address: Address, networks: Sequence[Network]) -> bool:
    """Whether it, or the IPv4 address that it stands for, is in one of these networks."""
    both = (address, _unwrap_ipv4(address))
    return any(each in network for network in networks for each in both if each.version == network.version)


def refusal_reason(address: Address, networks: Sequence[Network]) -> str | None:
    """Why nothing connects to an address; None: it may."""
    if is_in_networks(address, networks) or _is_public(_unwrap_ipv4(address)):
        return None
    return f"{address} is not a public address; STREAMSCHED_OUTGOING_NETWORKS can permit it"


def refused_host(host: str, networks: Sequence[Network]) -> str | None:
    """As `refusal_reason`, of a host that is written as an address, in any spelling that a resolver reads, or is this
    machine; None also for other names, whose addresses are known when they are resolved.
    """
    bare = normalize("NFKC", unquote(host)).replace("\u3002", ".").strip("[]").rstrip(".").lower()
    if bare == "localhost" or bare.endswith((".localhost", ".localdomain")):
        bare = "127.0.0.1"
    address = _read(bare.partition("%")[0])
    return None if address is None else refusal_reason(address, networks)


def refused_url(url: str, networks: Sequence[Network]) -> str | None:
    """As `refused_host`, of the host of a URL; None also for what is no URL, or has a template in its host."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    return refused_host(host, networks)


def _read(host: str) -> Address | None:
    """The address of a literal; None: it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    parts = host.split(".")
    if len(parts) > 4 or not all(_PART.fullmatch(part) for part in parts):
        return None
    try:
        *firsts, last = (_number(part) for part in parts)
        if any(first > 255 for first in firsts) or last >= 256 ** (4 - len(firsts)):
            return None
        return IPv4Address(sum(first << 8 * (3 - place) for place, first in enumerate(firsts)) + last)
    except ValueError:
        return None


def _number(part: str) -> int:
    """Raises:
    ValueError: it is no number.
    """
    if part[:2] in {"0x", "0X"}:
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_4)
    return address in _GLOBAL_6 and not any(address in network for network in _REFUSED_6)


def _unwrap_ipv4(address: Address) -> Address:
    if isinstance(address, IPv6Address) and any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
