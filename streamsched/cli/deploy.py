"""`streamsched deploy`: an app's definition, from Python or YAML, to the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from streamsched.cli.output import Format, FormatOption, console, print_json
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.errors import InvalidDefinitionError


def deploy(
    target: Annotated[str, typer.Argument(help="A Python or YAML file, or module[:attribute].")],
    *,
    update_schedules: Annotated[
        bool, typer.Option(help="Also change schedules that exist; equal ones keep what they have accumulated.")
    ] = True,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="Spark main files are on the machine that runs them, not here.")
    ] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Makes the server know an app as it is defined here; what the definition no longer names, goes."""
    from streamsched.codec.schedule import app_to_json
    from streamsched.define.loading import load_app

    app = load_app(target)
    body = app_to_json(app)
    if not elsewhere:
        _require_mains(body)
    path = f"/v1/apps/{app.ref.namespace}/{app.ref.app}"
    changed = ask("PUT", path, url=url, params={"updateSchedules": str(update_schedules).lower()}, body=body)
    if output is Format.JSON:
        print_json(changed)
        return
    out = console()
    out.print(f"[bold]{app.ref}[/] is deployed")
    for kind in ("programs", "schedules"):
        for each in changed[kind]:
            out.print(f"  {kind[:-1]} {each['id']}: {each['action']}")


def _require_mains(body: dict[str, Any]) -> None:
    """Raises:
    InvalidDefinitionError: a Spark program's main file does not exist here.
    """
    for index, program in enumerate(body["programs"]):
        main = program.get("main")
        if main is not None and "://" not in main and not Path(main).is_file():
            raise InvalidDefinitionError(
                f"$.programs[{index}].main",
                f"{main} does not exist; `--elsewhere` deploys it all the same, for another machine to run",
            )
