"""`streamsched deploy` and `diff`: an app's definition, from Python or YAML, to the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from streamsched.cli.output import Format, FormatOption, console, escaped, print_json
from streamsched.cli.preview import print_preview
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.errors import InvalidDefinitionError

#: Exit code of `diff` when something would change.
DIFFERS: Final = 6

Target = Annotated[str, typer.Argument(help="A Python or YAML file, or module[:attribute].")]
UpdateOption = Annotated[
    bool, typer.Option(help="Also change schedules that exist; equal ones keep what they have accumulated.")
]
KeepOption = Annotated[
    bool | None,
    typer.Option("--keep/--reset", help="Changed schedules go on with what fits, or start anew; else as each says."),
]


def deploy(
    target: Target,
    *,
    update_schedules: UpdateOption = True,
    keep: KeepOption = None,
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
    params = {"updateSchedules": update_schedules, "keep": keep}
    changed = ask("PUT", path, url=url, params=params, body=body)
    if output is Format.JSON:
        print_json(changed)
        return
    out = console()
    out.print(f"[bold]{app.ref}[/] is deployed")
    for kind in ("programs", "schedules"):
        for each in changed[kind]:
            kept = ", keeping what it had" if each.get("keeps") else ""
            because = f" ({escaped(each['reason'])})" if each["reason"] not in {"", "deployed"} else ""
            out.print(f"  {kind[:-1]} {each['id']}: {each['action']}{kept}{because}")


def diff(
    target: Target,
    *,
    update_schedules: UpdateOption = True,
    keep: KeepOption = None,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Says what `deploy` would change, field by field, and what accumulation would be lost. Changes nothing.

    Exit code 0: nothing would change; 6: something would.
    """
    from streamsched.codec.schedule import app_to_json
    from streamsched.define.loading import load_app

    app = load_app(target)
    params = {"updateSchedules": update_schedules, "keep": keep, "dry_run": True}
    path = f"/v1/apps/{app.ref.namespace}/{app.ref.app}"
    preview = ask("PUT", path, url=url, params=params, body=app_to_json(app))
    if output is Format.JSON:
        print_json(preview)
    else:
        print_preview(preview)
    if preview["differs"]:
        raise typer.Exit(DIFFERS)


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
