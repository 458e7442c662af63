"""`streamsched cron`: the next ticks of a cron expression. Needs no server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, moment, print_structured, print_table
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import check_instant
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.time.duration import duration_text
from streamsched.ports.clock import SystemClock

_DESCRIPTION: Final = "Shows what a cron expression means. Needs no server."


def commands() -> typer.Typer:
    """The commands of `streamsched cron`."""
    app = new_group(_DESCRIPTION)
    app.callback(help=_DESCRIPTION)(_group)  # without a callback, Typer makes the only command the group itself
    app.command("next")(next_ticks)
    return app


def _group() -> None:
    pass


def next_ticks(
    expression: Annotated[str, typer.Argument(metavar="EXPRESSION", help="Cron expression, such as '30 2 * * 1-5'.")],
    *,
    zone: Annotated[str, typer.Option(help="IANA time zone of the expression.")] = "UTC",
    dialect: Annotated[Dialect, typer.Option(help="Dialect of the expression.")] = Dialect.UNIX,
    in_gap: Annotated[
        InGap | None,
        typer.Option(
            help="Tick after a time that daylight saving skips, or skip it. Default: after; skip in dialect dapr."
        ),
    ] = None,
    in_overlap: Annotated[
        InOverlap | None,
        typer.Option(
            help="Which occurrence of a time ticks that daylight saving repeats. Default: first; both in dialect dapr "
            "and when the minute starts with `*`."
        ),
    ] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1000, help="Number of ticks.")] = 10,
    after: Annotated[
        str, typer.Option(help="Show ticks after this ISO 8601 instant, in UTC unless it has an offset. Default: now.")
    ] = "",
    output: FormatOption = Format.TABLE,
) -> None:
    """Lists the next ticks of an expression in its zone and in UTC.

    Notes mark days that daylight saving changes.
    """
    from streamsched.codec.events.native import to_plain
    from streamsched.domain.ticks.fire_times import check_cron
    from streamsched.domain.ticks.forecast import forecast
    from streamsched.domain.triggers.time_leaf import Cron
    from streamsched.wire.ticks import LEAF_TICKS

    leaf = Cron(expression, zone, dialect, in_gap, in_overlap)
    check_cron(leaf)
    since = _instant(after) if after else SystemClock().now()
    coming = forecast(leaf, since, count, created_at=since)
    found = to_plain({"when": str(leaf), **LEAF_TICKS.write(coming)})
    if not print_structured(found, output, names=lambda found: [each["at"] for each in found["ticks"]]):
        print_forecast(found)


def print_forecast(found: Mapping[str, Any]) -> None:
    """Prints a forecast of the API: the trigger, and a row for each tick and each omitted day, in order of time.

    Times are in the trigger's zone; a second column has UTC if the zone is another one. Columns that are empty in all
    rows are not shown.
    """
    rows = [_tick_row(tick, found["zone"]) for tick in found["ticks"]]
    rows += [{"order": each["day"], "local": each["day"], "note": each["text"]} for each in found["omitted"]]
    rows.sort(key=lambda row: row["order"])
    columns = [Column("local", found["zone"])]
    if found["zone"] != "UTC":
        columns.append(Column("utc", "UTC"))
    columns += [Column("delay"), Column("note", kind=ColumnKind.TEXT, style=lambda _: "yellow")]
    used = [column for column in columns if column.name == "local" or any(row.get(column.name) for row in rows)]
    console().print(found["when"], markup=False, style="bold")
    if rows:
        print_table(
            [{column.name: row.get(column.name) or "" for column in used} for row in rows],
            used,
            empty="",
        )
    if not found["ticks"]:
        console().print("no further ticks", style="dim")


def print_since_last_run(found: Mapping[str, Any]) -> None:
    """Prints a `since_last_run` of the API, and when it will hold."""
    console().print(found["when"], markup=False, style="bold")
    if found["at"] is not None:
        console().print(f"holds at {moment(found['at'])} at the earliest; any job or run before then puts it off")
    elif found["active"]:
        console().print(f"a job waits or a run is active; it holds {found['after']} after the end")
    else:
        console().print(f"holds {found['after']} after the schedule is enabled, or after its last run has ended")


def _tick_row(tick: Mapping[str, Any], zone: str) -> dict[str, str]:
    """A row: `delay` is how long after its time the tick fires, because of jitter."""
    local, at, fires = (datetime.fromisoformat(tick[name]) for name in ("local", "at", "firesAt"))
    offset = "Z" if zone == "UTC" else f" {local:%z}"
    return {
        "order": tick["local"][:10] + tick["at"],
        "local": f"{local:%a %Y-%m-%d %H:%M:%S}{offset}",
        "utc": f"{at:%Y-%m-%d %H:%M:%SZ}",
        "delay": "" if fires == at else f"+{duration_text(_round(fires - at))}",
        "note": "; ".join(note["text"] for note in tick["notes"]),
    }


def _round(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds()))


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidError("--after", f"'{text}' is not an instant such as 2026-03-28T12:00Z") from exc
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    check_instant(instant, "--after")
    return instant
