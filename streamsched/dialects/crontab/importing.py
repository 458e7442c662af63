"""`streamsched import crontab`: each entry of a crontab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamsched.cli.commands.moving.app_files import Writing
from streamsched.cli.commands.moving.report import DryOption, ForceOption, StrictOption, ToOption, import_file
from streamsched.cli.naming import full_app
from streamsched.cli.output import Format, FormatOption
from streamsched.domain.names import AppRef


def crontab(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A crontab; `-` is standard input (`crontab -l`).")],
    *,
    app: Annotated[str, typer.Option("--app", help="The app to write, [namespace.]app.")] = "cron",
    system: Annotated[
        bool, typer.Option("--system", help="Entries name a user, as in /etc/crontab and /etc/cron.d.")
    ] = False,
    zone: Annotated[
        str, typer.Option(help="Zone of entries without CRON_TZ, such as Europe/Berlin. Default: UTC.")
    ] = "",
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file with a program and a schedule for each entry of a crontab, and reports the differences."""
    from streamsched.dialects.crontab.codec import crontab_from_text

    ref = AppRef.parse(full_app(app))
    import_file(
        file,
        lambda raw: crontab_from_text(raw, ref, system=system, zone=zone),
        Writing(to, force, strict, dry_run),
        output,
    )
