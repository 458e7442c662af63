"""Opens the log with the driver for a URL: its scheme is the name of an entry point of group `streamsched.brokers`."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from streamsched.domain.errors import ConfigurationError
from streamsched.log.topics import ALL_TOPICS
from streamsched.ports.broker import Broker
from streamsched.process.entry_points import installed_points
from streamsched.process.extras import missing_extra_error

GROUP = "streamsched.brokers"
_NAME: Final = "name."


async def open_broker(url: str) -> Broker:
    """Opens the log behind `url`, e.g. `postgresql://…`, `memory://name`.

    Raises:
        ConfigurationError: no installed driver has that scheme, a package it needs is missing, or it refuses the URL.
        UnavailableError: the broker cannot be reached.
    """
    scheme = urlsplit(url).scheme
    _check_names(url)
    drivers = installed_points(GROUP)
    if scheme not in drivers:
        raise ConfigurationError(
            f"no broker driver for '{scheme}://'; installed: {', '.join(sorted(drivers)) or 'none'}"
        )
    try:
        factory = drivers[scheme].load()
    except ModuleNotFoundError as exc:
        raise missing_extra_error(exc) or ConfigurationError(
            f"the broker driver for '{scheme}://' cannot be loaded: {exc}"
        ) from exc
    return await factory(url)


def _check_names(url: str) -> None:
    """An option `name.partitions=…` of the URL gives a topic of ours another name in the broker."""
    given = (name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True) if name.startswith(_NAME))
    for topic in (name.removeprefix(_NAME) for name in given):
        if topic not in ALL_TOPICS:
            known = ", ".join(sorted(ALL_TOPICS))
            raise ConfigurationError(f"the log's URL has {_NAME}{topic}, but no topic is called so; ours are {known}")
