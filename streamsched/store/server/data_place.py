"""Where a data folder is: what is stored in it with whole paths is mended at the first start in another place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamsched.process.files import write_atomically
from streamsched.store.connections import temporary_pool
from streamsched.store.sql import queries

_SQL: Final = queries("server/data_place")
#: The file with the folder's place at its last start.
_PLACE: Final = "place"


def move_logs(url: str, folder: Path) -> Iterator[str]:
    """Sets the paths of the logs of runs when the folder, of which `url` is the database, was elsewhere at its last
    start, and says so. Killed in between, the next start does it. The schema is the newest.
    """
    place, here = folder / _PLACE, str(folder)
    former = place.read_text(encoding="utf-8") if place.is_file() else ""
    if former == here:
        return
    number = asyncio.run(_move(url, former, here)) if former else 0
    with write_atomically(place) as file:
        file.write(here.encode())
    if former:
        counted = "1 log of a run was" if number == 1 else f"{number:,} logs of runs were"
        yield f"its folder was {former}; {counted} found here"


async def _move(url: str, former: str, here: str) -> int:
    async with temporary_pool(url) as pool:
        return await pool.fetchval(_SQL["move_logs"], former, here)
