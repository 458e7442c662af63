"""`streamsched import`: definitions of other systems become files of apps, with a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from streamsched.cli.commands.moving.app_files import Writing
from streamsched.cli.commands.moving.cdap import cdap
from streamsched.cli.commands.moving.imported_state import preferences, runs
from streamsched.cli.commands.moving.report import (
    DryOption,
    ForceOption,
    ProgramsOption,
    StrictOption,
    ToOption,
    import_file,
    programs_in,
)
from streamsched.cli.commands.moving.stolos import stolos
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app
from streamsched.cli.output import Format, FormatOption
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import AppRef


def commands() -> typer.Typer:
    """The commands of `streamsched import`."""
    app = new_group("Imports definitions of other systems, with a report of what carries over.")
    app.command()(crontab)
    app.command()(cdap)
    app.command()(oozie)
    app.command()(airflow)
    app.command()(stolos)
    app.command()(preferences)
    app.command()(runs)
    return app


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
    from streamsched.codec.crontab import crontab_from_text

    ref = AppRef.parse(full_app(app))
    import_file(
        file,
        lambda raw: crontab_from_text(raw, ref, system=system, zone=zone),
        Writing(to, force, strict, dry_run),
        output,
    )


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
    from streamsched.codec.oozie.coordinator import coordinator_from_xml

    ref, properties = AppRef.parse(full_app(app)) if app else None, pairs(set_ or ())
    import_file(
        file,
        lambda raw: coordinator_from_xml(raw, ref, properties=properties),
        Writing(to, force, strict, dry_run),
        output,
    )


def airflow(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file of DAGs. It is read, not executed.")],
    *,
    namespace: Annotated[str, typer.Option(help="The namespace of the apps.")] = "default",
    version: Annotated[
        int | None, typer.Option("--airflow", min=2, max=3, help="2 or 3. Default: as the imports of the file suggest.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", metavar="NAME=SLOTS", help="Slots of a pool. Repeatable.")
    ] = None,
    var: Annotated[
        list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="A variable of Airflow. Repeatable.")
    ] = None,
    programs: ProgramsOption = None,
    to: ToOption = "",
    force: ForceOption = False,
    strict: StrictOption = False,
    dry_run: DryOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Writes an app file with a graph of tasks for each DAG of a file.

    What became of each keyword is printed, and is in the comments of the file: carried, changed or refused. A task that
    cannot be carried is a placeholder, which fails until it is replaced.
    """
    from streamsched.cli.arguments import pairs
    from streamsched.codec.airflow.dag_file import AirflowAnswers, dags_from_source

    given = {} if programs is None else programs_in(programs)
    answers = AirflowAnswers(version or 0, _slots(pairs(pool or ())), pairs(var or ()), given)
    import_file(
        file,
        lambda raw: dags_from_source(raw, namespace=namespace, answers=answers),
        Writing(to, force, strict, dry_run),
        output,
    )


def _slots(pools: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in pools.items():
        if not text.isascii() or not text.isdecimal() or not 0 < int(text[:12]) <= MOST_SLOTS:
            raise InvalidError("--pool", f"{name}={text} must have a number of slots, from 1 to {MOST_SLOTS}")
        found[name] = int(text)
    return found
