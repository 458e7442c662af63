"""`streamsched clock`: the time of the installation, and what a person says about it."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamsched.cli.commands.admin import DirectOption, administer, through_api
from streamsched.cli.confirmation import confirm as confirm_at_terminal
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, moment, print_answer
from streamsched.cli.server import UrlOption, ask

if TYPE_CHECKING:
    from streamsched.admin.installation import Installation

_PATH = "/v1/admin/clock"


def commands() -> typer.Typer:
    """The commands of `streamsched clock`."""
    app = new_group("Shows the time of the installation, and confirms it after the database's clock has jumped.")
    app.command("show")(show)
    app.command("confirm")(confirm)
    return app


def show(*, direct: DirectOption = False, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows PostgreSQL's clock, the time that processes go by, and what was judged last."""
    found = _read_clock(url, direct=direct)
    print_answer(found, output, _print)


def confirm(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    direct: DirectOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Says that PostgreSQL's clock is right after a jump: its time is the installation's within seconds.

    What is due or expired by it then fires, expires and is deleted. Exit code 4: the clock is not in doubt.
    """
    from streamsched.admin.checks.clock import confirm as confirm_clock
    from streamsched.admin.checks.clock import to_json

    found = _read_clock(url, direct=direct)
    number = found["number"]

    async def store(at: Installation) -> dict[str, Any]:
        return to_json(await confirm_clock(at.judgements, number, by=f"{getpass.getuser()}, directly"))

    if found["doubt"] and not yes:
        if not output.is_structured:
            _print(found)
        confirm_at_terminal(
            "Is the clock of the database right?",
            declined="nothing was changed",
            refused="not confirmed; `--yes` confirms it",
            quiet=output.is_structured,
        )
    if through_api(url, direct=direct):
        found = ask("POST", f"{_PATH}/confirm", url=url, body={"number": number})
    else:
        found = administer(store)
    print_answer(found, output, _print)


def _read_clock(url: str, *, direct: bool) -> dict[str, Any]:
    from streamsched.admin.checks.clock import to_json

    async def read(at: Installation) -> dict[str, Any]:
        return to_json(await at.judgements.state())

    return ask("GET", _PATH, url=url) if through_api(url, direct=direct) else administer(read)


def _print(found: dict[str, Any]) -> None:
    typer.echo(f"database  {_time(found['database'])}")
    typer.echo(f"processes {_time(found['counted'])}")
    if found["last"]:
        typer.echo(f"{found['last']['fact']} at {_time(found['last']['at'])} by {found['last']['by']}")
    if found["doubt"]:
        typer.echo(f"the database's clock {found['doubt']}; nothing expires, is killed or deleted")


def _time(value: Any) -> str:
    """In local time: a text of the API, or an instant."""
    return moment(value if isinstance(value, str) else value.isoformat())
