"""`streamsched dev`: everything in one process, for one folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamsched.cli.output import console
from streamsched.cli.server import folder_here

if TYPE_CHECKING:
    from streamsched.embedded import Started


def dev(
    *,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where everything is kept (.streamsched, or STREAMSCHED_DATA_DIR).")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where the API listens (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the API (8765); 0 takes any free one.")] = None,
    spark_master: Annotated[str | None, typer.Option(help="Where Spark programs run (local[*]).")] = None,
    broker: Annotated[
        str | None, typer.Option(help="Another log than the embedded PostgreSQL: kafka://host:9092/.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log each action; DIR/dev.log has them anyway.")
    ] = False,
) -> None:
    """Runs the whole scheduler here: PostgreSQL, log, worker, launcher, API. Ctrl-C stops it; a restart goes on."""
    from streamsched.embedded import run_dev

    run_dev(
        os.environ,
        data_dir=data_dir or folder_here(),
        announce=_welcome,
        api_host=host,
        api_port=port,
        spark_master=spark_master,
        broker_url=broker,
        log_level="info" if verbose else None,
    )


def _welcome(started: Started) -> None:
    """Where things are, and what to do next."""
    out = console()
    out.print(f"[bold green]streamsched[/] {'goes on' if started.resumed else 'is up'}: [bold]{started.url}[/]")
    for warning in started.warnings:
        out.print(f"  [yellow]warning:[/] {warning}")
    out.print(f"  everything is kept in {started.folder}", markup=False)
    out.print(
        "  next: streamsched deploy FILE · streamsched schedule list · streamsched event emit partitions DATASET KEY"
    )
    out.print("  Ctrl-C stops it; started again, it goes on where it was")
    out.print(f"  log: {started.folder / 'dev.log'}", markup=False)
