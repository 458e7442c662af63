"""`streamsched cron`: what an expression means, before anything is deployed. Needs no server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from streamsched.cli.output import Format, FormatOption, console, escaped, print_json
from streamsched.codec import forecast as forecast_codec
from streamsched.domain.cron import check_cron
from streamsched.domain.dialect import Dialect, InGap, InOverlap
from streamsched.domain.duration import duration_text
from streamsched.domain.errors import InvalidError
from streamsched.domain.forecast import forecast
from streamsched.domain.tick import Cron
from streamsched.ports.clock import SystemClock


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="What a cron expression means.", no_args_is_help=True)
    app.callback()(_noun)
    app.command("next")(next_ticks)
    return app


def _noun() -> None:
    """What a cron expression means."""


def next_ticks(
    expression: Annotated[str, typer.Argument(help="Such as '30 2 * * 1-5'.")],
    *,
    zone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
    dialect: Annotated[Dialect, typer.Option(help="Who reads the expression.")] = Dialect.UNIX,
    in_gap: Annotated[InGap | None, typer.Option(help="What a time does that the clock skips.")] = None,
    in_overlap: Annotated[InOverlap | None, typer.Option(help="Which one ticks of a time that comes twice.")] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1000, help="So many.")] = 10,
    after: Annotated[
        str, typer.Option(help="From this instant on, in UTC if it says no offset; now when not given.")
    ] = "",
    output: FormatOption = Format.TABLE,
) -> None:
    """When it ticks next; odd days are marked."""
    leaf = Cron(expression, zone, dialect, in_gap, in_overlap)
    check_cron(leaf)
    since = _instant(after) if after else SystemClock().now()
    found = {"when": str(leaf), **forecast_codec.to_json(forecast(leaf, since, count, created_at=since))}
    if output is Format.JSON:
        print_json(found)
    else:
        print_forecast(found)


def print_forecast(found: Mapping[str, Any]) -> None:
    """A forecast as the API gives it: a line for each tick and each day left out, in order of time."""
    from rich.table import Table

    heads = f"in {found['zone']}", "UTC", "fires", ""
    table = Table(*heads, title=escaped(found["when"]), title_justify="left", box=None, pad_edge=False)
    lines = [
        (tick["local"], tick["at"], tick["firesAt"], _words(tick["notes"]), "yellow" if tick["notes"] else "")
        for tick in found["ticks"]
    ]
    lines += [(each["day"], None, None, _words([each]), "dim") for each in found["omitted"]]
    for local, at, fires, words, style in sorted(lines, key=lambda line: (line[0][:10], line[1] or "")):
        late = "" if fires == at or at is None else f"+{duration_text(_whole(_instant(fires) - _instant(at)))}"
        shown = f"{datetime.fromisoformat(local):%a %Y-%m-%d %H:%M:%S %z}" if at else f"{local} -"
        table.add_row(shown, "" if at is None else f"{_instant(at):%Y-%m-%d %H:%M:%SZ}", late, words, style=style)
    out = console()
    out.print(table)
    if not found["ticks"]:
        out.print("it never ticks again", style="dim")


def _words(notes: list[Mapping[str, str]]) -> str:
    return escaped("; ".join(note["text"] for note in notes))


def _whole(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds()))


def _instant(text: str) -> datetime:
    try:
        read = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidError("--after", f"'{text}' is no instant such as 2026-03-28T12:00Z") from exc
    return read if read.tzinfo else read.replace(tzinfo=UTC)
