"""`streamsched import airflow`: the DAGs of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from streamsched.cli.commands.moving.app_files import Writing
from streamsched.cli.commands.moving.report import (
    DryOption,
    ForceOption,
    ProgramsOption,
    StrictOption,
    ToOption,
    import_file,
    programs_in,
)
from streamsched.cli.output import Format, FormatOption
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import MOST_SLOTS


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
    from streamsched.dialects.airflow.codec.dag_file import AirflowAnswers, dags_from_source

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
