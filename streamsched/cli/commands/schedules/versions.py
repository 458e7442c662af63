"""`streamsched schedule versions` and `rollback`: the definitions that a schedule has had."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from streamsched.cli.confirmation import DryRunOption, YesOption, print_change
from streamsched.cli.naming import full_name, short_name
from streamsched.cli.output import Format, FormatOption
from streamsched.cli.resources.listing import Listing, print_items
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.shell.completion import schedule_names
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import NotFoundError

#: Versions that a server keeps of a schedule, and a little more.
_MOST: Final = 100
_VERSIONS: Final = Listing(
    "versions",
    (
        Column("generation", kind=ColumnKind.ID),
        Column("at", "since", ColumnKind.TIME),
        Column("changed", kind=ColumnKind.TEXT),
        Column("reason", kind=ColumnKind.REASON),
    ),
    "no versions",
)
#: Members that say which schedule it is.
_NAMES: Final = frozenset({"namespace", "application", "name"})

Schedule = Annotated[
    str,
    typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedule, [namespace.]app.name."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("versions")(versions)
    app.command("rollback")(rollback)


def versions(schedule: Schedule, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Lists the definitions that a schedule has had, newest first, and which fields each changed.

    A server keeps the newest 50 of each schedule, also of a deleted one.
    """
    found = _versions(schedule, url)
    former = [*(each["definition"] for each in found[1:]), None]
    rows = (
        {**each, "changed": _changed_fields(each["definition"], before)}
        for each, before in zip(found, former, strict=False)
    )
    print_items(_VERSIONS, found, output, rows=rows)


def rollback(
    schedule: Schedule,
    *,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="Generation of the version. Default: the one before the newest.")
    ] = None,
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep/--reset", help="Keep the accumulated events and waiting jobs that fit, or drop them (default)."
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Changes a schedule back to an earlier definition (`schedule versions`). This makes a new generation.

    Its state (enabled, paused, disabled) does not change. The command shows the plan; if something would be lost, it
    asks for confirmation at a terminal; without a terminal it needs --yes (otherwise exit code 7).
    """
    version = _find_version(schedule, _versions(schedule, url), to)
    path, body = f"/v1/schedules/{full_name(schedule)}", version["definition"]
    print_change(
        "PUT",
        path,
        lambda changed: (
            f"{short_name(changed['id'])} has the definition of generation {version['generation']}; it is now "
            f"generation {changed['generation']}"
        ),
        params={"keep": keep},
        body=body,
        yes=yes,
        dry_run=dry_run,
        output=output,
        url=url,
        always_shown=True,
    )


def _versions(schedule: str, url: str) -> list[dict[str, Any]]:
    return ask("GET", f"/v1/schedules/{full_name(schedule)}/versions", url=url, params={"limit": _MOST})["versions"]


def _find_version(schedule: str, found: list[dict[str, Any]], to: int | None) -> dict[str, Any]:
    """Raises:
    NotFoundError: there is no such version.
    """
    if to is None:
        if len(found) < 2:
            raise NotFoundError("earlier version of schedule", schedule)
        return found[1]
    for each in found:
        if each["generation"] == to:
            return each
    raise NotFoundError("version", f"{schedule} of generation {to}")


def _changed_fields(definition: dict[str, Any], before: dict[str, Any] | None) -> str:
    """The names of the fields that differ."""
    if before is None:
        return "first known"
    names = [name for name in definition if name not in _NAMES and definition[name] != before.get(name)]
    return ", ".join(names) or "nothing"
