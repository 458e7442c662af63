"""Guards the connections that are made on behalf of definitions (`domain.addresses`): each address is judged where its
socket is made, so no spelling of a host and no name that changes its address goes around it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, Final

from streamsched.domain.addresses import Network, is_in_networks, refusal_reason

#: Family, type, protocol, canonical name and address, as of `socket.getaddrinfo`.
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


class RefusedAddressError(OSError):
    """Nothing connects to this address."""


def guarded_sockets(networks: Sequence[Network]) -> Callable[[AddressInfo], socket.socket]:
    """Makes sockets for connections to public addresses and to `networks`; for others it raises RefusedAddressError."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if family not in _FAMILIES:
            raise RefusedAddressError(None, "only addresses of IP are connected to")
        why = refusal_reason(ip_address(str(address[0]).partition("%")[0]), networks)
        if why is not None:
            raise RefusedAddressError(None, why)
        return socket.socket(family, kind, protocol)

    return make


async def goes_direct(host: str, networks: Sequence[Network]) -> bool:
    """Whether a host is connected to without the proxy: it is known here, and an address of it is in `networks`.

    Raises:
        RefusedAddressError: it is known here, and one of its addresses is refused. A proxy would find that address.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # the proxy may know it
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    if any(is_in_networks(each, networks) for each in addresses):
        return True
    for each in addresses:
        if (why := refusal_reason(each, networks)) is not None:
            raise RefusedAddressError(None, why)
    return False
