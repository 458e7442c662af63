"""The Host header values that the API accepts. Pure.

With DNS rebinding a browser sends requests to this API under a host name that the attacker controls. The Host header
contains that name, so a list of accepted names stops the attack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self
from urllib.parse import urlsplit

from streamsched.config import Settings

#: Listen addresses that mean all addresses of the machine.
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:@/?#\s]+)(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Authority:
    """Host and port of a URL or of a Host header.

    Attributes:
        host: lower case, without a trailing dot; an IPv6 address without brackets and in its shortest form.
        port: None when the text has no port.
    """

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses `host`, `host:port`, `[address]` or `[address]:port`; None for any other text."""
        found = _AUTHORITY.fullmatch(text.strip().lower())
        if found is None:
            return None
        host = normalize(found["host"])
        port = None if found["port"] is None else int(found["port"])
        return None if host is None else cls(host, port)

    def same_as(self, other: Authority, *, default_port: int | None) -> bool:
        """Whether both are the same host and port. A missing port counts as `default_port`."""
        return self.host == other.host and (self.port or default_port) == (other.port or default_port)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts that the API accepts, on any port. Loopback names and addresses are always accepted.

    Attributes:
        names: normalized hosts; `*.example.org` matches every name below `example.org`.
        configured: the part of `names` that an administrator listed. A proxy in front of the API may serve pages under
            these names, so they are also accepted as origins.
        any_address: every IP address is accepted. This is safe because DNS rebinding needs a name.
        any_host: every host is accepted.
    """

    names: frozenset[str] = frozenset()
    configured: frozenset[str] = frozenset()
    any_address: bool = False
    any_host: bool = False

    @classmethod
    def of(cls, listed: Iterable[str] = (), *, api_host: str = "127.0.0.1", urls: Iterable[str] = ()) -> Self:
        """The accepted hosts of an installation.

        Args:
            listed: hosts without ports (`STREAMSCHED_API_ALLOWED_HOSTS`); `*` accepts every host.
            api_host: the listen address of the API.
            urls: URLs that the installation's own processes use to reach the API.

        Raises:
            ValueError: an entry of `listed` is not a host; the message contains it.
        """
        given = [each.strip().lower() for each in listed if each.strip()]
        configured = frozenset(_read_entry(each) for each in given if each != "*")
        own = {normalize(api_host), *(normalize(urlsplit(url).hostname or "") for url in urls)}
        wildcard = api_host in _WILDCARDS
        names = configured | {name for name in own if name and name not in _WILDCARDS}
        return cls(frozenset(names), configured, any_address=wildcard, any_host="*" in given)

    def accepts(self, host: str) -> bool:
        """Whether requests for this normalized host are accepted."""
        if self.any_host or host == "localhost" or host in self.names or _below(host, self.names):
            return True
        address = _address(host)
        return address is not None and (self.any_address or _loopback(address))

    def accepts_origin(self, host: str) -> bool:
        """Whether pages of this normalized host may use the API although the Host header names another host."""
        return host in self.configured or _below(host, self.configured)


def allowed_hosts(settings: Settings) -> AllowedHosts:
    """Loopback, the listen address, the host of the emit URL, and `STREAMSCHED_API_ALLOWED_HOSTS`."""
    urls = [settings.runs.emit_url] if settings.runs.emit_url.startswith(("http://", "https://")) else []
    return AllowedHosts.of(settings.api.allowed_hosts, api_host=settings.api.host, urls=urls)


def normalize(host: str) -> str | None:
    """The host in lower case, without brackets and trailing dot, an address in its shortest form. None if `host` is not
    a valid host.
    """
    text = host.strip().lower()
    if text.startswith("[") and text.endswith("]"):
        inside = _address(text[1:-1])
        return str(inside) if isinstance(inside, IPv6Address) else None
    address = _address(text)
    if address is not None:
        return str(address)
    text = text.removesuffix(".")
    return text if _NAME.fullmatch(text) else None


def _read_entry(text: str) -> str:
    below = text.startswith("*.")
    host = normalize(text[2:] if below else text)
    if host is None:
        raise ValueError(
            f"'{text}' is not a host; use names or addresses without a port, such as scheduler.example.org"
        )
    return f"*.{host}" if below else host


def _below(host: str, names: frozenset[str]) -> bool:
    """Whether a pattern `*.name` matches the host. Linear in the number of labels of the host."""
    labels = host.split(".")
    return any("*." + ".".join(labels[index:]) in names for index in range(1, len(labels)))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _loopback(address: IPv4Address | IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
