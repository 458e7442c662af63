"""`streamsched import oozie`: a coordinator of Oozie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamsched.cli.commands.moving.app_files import Writing
from streamsched.cli.commands.moving.report import DryOption, ForceOption, StrictOption, ToOption, import_file
from streamsched.cli.naming import full_app
from streamsched.cli.output import Format, FormatOption
from streamsched.domain.names import AppRef


def oozie(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A coordinator.xml; `-` is standard input.")],
    *,
    app: Annotated[str, typer.Option("--app", help="The app to write, [namespace.]app. Default: its name.")] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A property of the job, for `${NAME}`. Repeatable."),
    ] = None,
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file for a coordinator of Oozie, and reports the differences."""
    from streamsched.cli.arguments import pairs
    from streamsched.dialects.oozie.codec.coordinator import coordinator_from_xml

    ref, properties = AppRef.parse(full_app(app)) if app else None, pairs(set_ or ())
    import_file(
        file,
        lambda raw: coordinator_from_xml(raw, ref, properties=properties),
        Writing(to, force, strict, dry_run),
        output,
    )
