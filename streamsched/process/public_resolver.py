"""Resolves names to addresses to which something may be sent (`domain.webhooks.addresses`): what a name resolves to is
checked where the connection is made, so a name that changes its address gains nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from streamsched.domain.webhooks.addresses import Network, refused


class PublicResolver(AbstractResolver):
    """Leaves out addresses that are refused; a name with no other is not resolved.

    Args:
        networks: those that are permitted though they are not public.
        exempt: names that are resolved to any address: of proxies.
    """

    def __init__(self, networks: Sequence[Network], exempt: Callable[[], Collection[str]]) -> None:
        self._networks = networks
        self._exempt = exempt
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises:
        OSError: it has no address, or only refused ones.
        """
        found = await self._resolver.resolve(host, port, family)
        if host in self._exempt():
            return found
        why = [refused(ip_address(each["host"].partition("%")[0]), self._networks) for each in found]
        permitted = [each for each, reason in zip(found, why, strict=True) if reason is None]
        if not permitted:
            raise OSError(None, f"{host} is not sent to: {next(filter(None, why), 'it has no address')}")
        return permitted

    async def close(self) -> None:
        await self._resolver.close()
