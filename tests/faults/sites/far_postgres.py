"""A PostgreSQL that is reached by its socket from here, and by TCP over a wire from the far side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamsched.store.server import embedded_server as server
from streamsched.store.server.embedded_server import start_server, stop_server


@contextmanager
def postgres(folder: Path, address: str | None) -> Iterator[tuple[str, str]]:
    """The URLs of its maintenance database: from here, and from over there, where it listens on `address`."""
    try:
        url = start_server(folder).url
        if address is None:
            yield url, url
            return
        stop_server(folder)
        with (folder / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.64.0.0/10 trust\n")
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write(f"listen_addresses = '{address}'\n")
        _start_by_its_own_settings(folder)
        yield url, f"postgresql://postgres@{address}:5432/postgres"
    finally:
        stop_server(folder)


def _start_by_its_own_settings(folder: Path) -> None:
    """As `start_server` does, which would have it listen on the socket alone."""
    directory = server._short_directory(folder)
    options = f"-c max_connections=120 -k {directory}"
    server._run(
        server._binaries(), "pg_ctl", "-D", str(folder), "-l", str(folder / "log"), "-w", "-o", options, "start"
    )
