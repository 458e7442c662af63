"""Finds broker drivers: the scheme of a URL names an entry point of group `streamsched.brokers`."""

from __future__ import annotations

from importlib.metadata import entry_points
from urllib.parse import urlsplit

from streamsched.domain.errors import ConfigurationError
from streamsched.ports.broker import Broker

GROUP = "streamsched.brokers"


async def open_broker(url: str) -> Broker:
    """Opens the log behind `url`, e.g. `postgresql://…`, `memory://name`.

    Raises:
        ConfigurationError: no installed driver has that scheme, or the driver refuses the URL.
        UnavailableError: the broker cannot be reached.
    """
    scheme = urlsplit(url).scheme
    drivers = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in drivers:
        raise ConfigurationError(
            f"no broker driver for '{scheme}://'; installed: {', '.join(sorted(drivers)) or 'none'}"
        )
    factory = drivers[scheme].load()
    return await factory(url)
