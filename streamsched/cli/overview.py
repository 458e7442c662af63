"""The live view of `streamsched top`. Imported by its command only, because it needs asyncio and rich."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from streamsched.cli.output import Format, console, escape_text, print_answer
from streamsched.domain.errors import UnavailableError

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Reads the current overview.
Read = Callable[[], Awaitable[dict[str, Any]]]

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


async def watch(source: AbstractAsyncContextManager[Read], *, once: bool, every: float, output: Format) -> None:
    """Prints the current overview, or updates it every `every` seconds until cancelled."""
    async with source as read:
        if once:
            overview = await read()
            print_answer(overview, output, lambda found: console().print(_render(found)), names=_shard_names)
            return
        with Live(console=console(), screen=False, auto_refresh=False) as live:
            began = time.monotonic()
            async for frame in frames(read):
                live.update(frame, refresh=True)
                await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))
                began = time.monotonic()


async def frames(read: Read) -> AsyncIterator[RenderableType]:
    """The rendered overviews, endlessly. While log or PostgreSQL are unavailable, a frame has the error and the last
    overview.
    """
    last: RenderableType = "no state read yet"
    read_at = time.monotonic()
    while True:
        try:
            overview = await read()
        except UnavailableError as exc:
            age = time.monotonic() - read_at
            yield Group(f"[red]{escape(str(exc))}[/]; state {age:.0f} s ago:", "", last)
        else:
            last, read_at = _render(overview), time.monotonic()
            yield last


def _shard_names(overview: dict[str, Any]) -> list[str]:
    return [str(each["shard"]) for each in overview["shards"]]


def _render(overview: dict[str, Any]) -> RenderableType:
    shards = Table(box=None, pad_edge=False)
    for name in _SHARDS:
        shards.add_column(name, justify="left" if name in {"worker", "state"} else "right", overflow="fold")
    for each in overview["shards"]:
        shards.add_row(*map(str, _cells(each)))
    queues = Table(box=None, pad_edge=False)
    for name, justify in (("queue", "left"), ("waiting", "right"), ("oldest", "right"), ("owner", "left")):
        queues.add_column(name, justify=justify)  # type: ignore[arg-type]
    for each in overview["queues"]:
        owner = "" if "role" not in each else each["owner"] or "[red]none[/]"
        oldest = f"{each['oldestSeconds']:g} s" if each["oldestSeconds"] else "-"
        queues.add_row(each["name"], str(each["waiting"]), oldest, owner)
    doubt = overview.get("clock")
    return Group(shards, "", queues, *(["", f"[red]PostgreSQL's clock {escape_text(doubt)}[/]"] if doubt else []))


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
