"""`streamsched top`: how the shards are and what waits, again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from streamsched.cli.admin import settings_here
from streamsched.cli.output import Format, FormatOption, console, print_json
from streamsched.domain.errors import UnavailableError

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHARDS: Final = (
    "shard",
    "worker",
    "state",
    "epoch",
    "behind",
    "turns/s",
    "events/s",
    "chunk",
    "start",
    "rows",
    "error",
)
_COLOURS: Final = {
    "ok": "green",
    "starting": "yellow",
    "untold": "yellow",
    "failing": "red",
    "silent": "red",
    "stale": "red",
    "unowned": "red",
}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("top")(top)


def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between looks.")] = 2.0,
    output: FormatOption = Format.TABLE,
) -> None:
    """How each shard is (owner, lag, rates, start, errors), and what waits for relay, timers and launchers."""
    asyncio.run(_look(once=once or output is Format.JSON, every=every, output=output))


async def _look(*, once: bool, every: float, output: Format) -> None:
    from streamsched.admin.installation import open_installation
    from streamsched.admin.overview import survey, to_json

    async with open_installation(settings_here()) as at:
        if once:
            found = to_json(await survey(at.broker, at.reports))
            if output is Format.JSON:
                print_json(found)
            else:
                console().print(_shown(found))
            return

        async def look() -> dict[str, Any]:
            return to_json(await survey(at.broker, at.reports))

        with Live(console=console(), screen=False, auto_refresh=False) as live:
            began = time.monotonic()
            async for frame in frames(look):
                live.update(frame, refresh=True)
                await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))
                began = time.monotonic()


async def frames(look: Callable[[], Awaitable[dict[str, Any]]]) -> AsyncIterator[RenderableType]:
    """What to show, look after look. While log or PostgreSQL are away it says so, and how it was before: this is when
    somebody watches.
    """
    shown: RenderableType = "nothing was seen yet"
    seen = time.monotonic()
    while True:
        try:
            found = await look()
        except UnavailableError as exc:
            ago = time.monotonic() - seen
            yield Group(f"[red]{escape(str(exc))}[/]; {ago:.0f} s ago it was:", "", shown)
        else:
            shown, seen = _shown(found), time.monotonic()
            yield shown


def _shown(found: dict[str, Any]) -> RenderableType:
    shards = Table(box=None, pad_edge=False)
    for name in _SHARDS:
        shards.add_column(name, justify="left" if name in {"worker", "state"} else "right")
    for each in found["shards"]:
        shards.add_row(*map(str, _cells(each)))
    queues = Table(box=None, pad_edge=False)
    for name, justify in (("waits", "left"), ("how many", "right"), ("oldest", "right"), ("played by", "left")):
        queues.add_column(name, justify=justify)  # type: ignore[arg-type]
    for each in found["queues"]:
        owner = "" if "role" not in each else each["owner"] or "[red]nobody[/]"
        oldest = f"{each['oldestSeconds']:g} s" if each["oldestSeconds"] else "-"
        queues.add_row(each["name"], str(each["waiting"]), oldest, owner)
    return Group(shards, "", queues)


def _cells(each: dict[str, Any]) -> tuple[object, ...]:
    state = each["state"]
    since = "" if each["sinceSeconds"] is None else f" for {each['sinceSeconds']:g} s"
    doing = f" ({each['doing']})" if state == "silent" else ""
    start = "-" if each["recoverySeconds"] is None else f"{each['recoverySeconds']:.2f} s"
    errors = f"[red]{each['inError']}[/]" if each["inError"] else _or_dash(each["inError"])
    return (
        each["shard"],
        each["worker"] or "-",
        f"[{_COLOURS[state]}]{state}{since}{doing}[/]",
        _or_dash(each["epoch"]),
        each["behind"],
        _or_dash(each["turnsPerSecond"]),
        _or_dash(each["eventsPerSecond"]),
        _or_dash(each["chunk"]),
        start,
        _or_dash(each["rows"]),
        errors,
    )


def _or_dash(value: object) -> object:
    return "-" if value is None else value
