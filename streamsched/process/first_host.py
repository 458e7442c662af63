"""Connects to PostgreSQL where its URL names several servers: a primary and its standbys."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

_PORT: Final = 5432
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?")


def hosts_of(url: str) -> Sequence[tuple[str, int]]:
    """Hosts and ports that a URL names, in its order; empty when it names at most one.

    >>> hosts_of("postgresql://user@one:5433,two/db?target_session_attrs=read-write")
    [('one', 5433), ('two', 5432)]
    >>> hosts_of("postgresql:///db?host=one,/run/two&port=5433,5432")
    [('one', 5433), ('/run/two', 5432)]
    """
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2]
    if named:
        found = [_HOST.fullmatch(each) for each in named.split(",")]
        hosts = [(unquote(each[1]).strip("[]"), int(each[2] or _PORT)) for each in found if each is not None]
    else:
        options = parse_qs(parts.query)
        listed = options.get("host", [""])[-1].split(",")
        ports = [int(each or _PORT) for each in options.get("port", [""])[-1].split(",") if not each or each.isdigit()]
        ports = ports * len(listed) if len(ports) == 1 else ports
        hosts = list(zip(listed, ports, strict=False))
    return hosts if len(hosts) > 1 else []


class FirstHost:
    """Connects to the first server of a URL that answers and is what its `target_session_attrs` asks for, beginning
    with the one that was reached last.

    The driver's time limit is one for all servers together, so a server that is cut off without an answer would use it
    up, and no other would be tried. Here each server has its share.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[..., Awaitable[Any]],
        away: tuple[type[Exception], ...],
        settings: Mapping[str, str],
    ) -> None:
        """`connect`: the driver's. `away`: what it raises for a server that cannot be used now. `settings` of each
        session are set once it stands: PgBouncer refuses them in the driver's first message.
        """
        self._driver = connect
        self._settings = "; ".join(f"SET {name} TO '{value}'" for name, value in settings.items())
        self._away = away
        self._hosts = list(hosts_of(url))

    async def __call__(self, url: str, *, timeout: float, **options: Any) -> Any:
        """The driver's `connect`, with its options.

        Raises:
            Exception: as the driver, of the server that was tried last.
        """
        failure: Exception | None = None
        for host, port in list(self._hosts):
            try:
                share_s = timeout / len(self._hosts)
                reached = await self._connect(url, host=host, port=port, timeout=share_s, **options)
            except self._away as exc:
                failure = exc
                continue
            self._hosts.sort(key=lambda each: each != (host, port))
            return reached
        if failure is not None:
            raise failure
        return await self._connect(url, timeout=timeout, **options)

    async def _connect(self, url: str, **options: Any) -> Any:
        connection = await self._driver(url, **options)
        try:
            await connection.execute(self._settings)
        except BaseException:
            connection.terminate()
            raise
        return connection
