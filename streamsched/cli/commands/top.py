"""`streamsched top`: a live view of shards and queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamsched.cli.commands.admin import DirectOption, settings_here, through_api
from streamsched.cli.output import Format, FormatOption
from streamsched.cli.server import UrlOption, ask

if TYPE_CHECKING:
    from streamsched.cli.overview import Read


def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the current state once and exit.")] = False,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between updates.")] = 2.0,
    direct: DirectOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows the state of each shard and the queues of relay, timers and launchers, updated until Ctrl-C.

    Columns: worker: the owner; behind: records not yet folded; turns/s and events/s: rates of the last seconds; chunk:
    records per chunk; start: recovery time of the shard; rows: stored state; error: schedules in error. With `-o json`
    the state is printed once.
    """
    import asyncio

    from streamsched.cli.overview import watch

    asyncio.run(watch(_source(url, direct=direct), once=once or output.is_structured, every=every, output=output))


@asynccontextmanager
async def _source(url: str, *, direct: bool) -> AsyncIterator[Read]:
    """A function that reads the current overview, from the API or directly from log and database."""
    import asyncio

    if through_api(url, direct=direct):
        yield lambda: asyncio.to_thread(ask, "GET", "/v1/admin/overview", url=url)
        return
    from streamsched.admin.installation import open_installation
    from streamsched.admin.overview import survey, to_json

    async with open_installation(settings_here()) as at:

        async def read() -> dict[str, Any]:
            return to_json(await survey(at.broker, at.reports))

        yield read
