"""`streamsched dev`: a complete scheduler in one process, with its data in one folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamsched.cli.output import console
from streamsched.cli.server import folder_here

if TYPE_CHECKING:
    from streamsched.roles.embedded import Started, Stopped


def dev(
    *,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of all data. Default: STREAMSCHED_DATA_DIR, else .streamsched.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Listen address of the API. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the API; 0: any free port. Default: 8765.")] = None,
    spark_master: Annotated[
        str | None, typer.Option(help="Spark master of programs without one. Default: local[*].")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(help="URL of the log, such as kafka://host:9092/. Default: the embedded PostgreSQL."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the log, which is otherwise only in DATA_DIR/dev.log.")
    ] = False,
) -> None:
    """Runs a complete scheduler on this machine: PostgreSQL, log, worker, launcher and API.

    HTTP programs, queues and webhooks may send to this machine, unless STREAMSCHED_OUTGOING_NETWORKS says otherwise.

    Ctrl-C stops it. Started again in the same folder, it continues with the stored state.
    """
    from streamsched.process.closed_process import close_process
    from streamsched.process.memory import configure_memory

    close_process()  # before the imports, which take their time
    configure_memory()
    from streamsched.roles.embedded import run_dev

    run_dev(
        os.environ,
        data_dir=data_dir or folder_here(),
        announce=_welcome,
        announce_end=_farewell,
        api_host=host,
        api_port=port,
        spark_master=spark_master,
        broker_url=broker,
        log_level="info" if verbose else None,
    )


def _welcome(started: Started) -> None:
    """Prints the URL, the data folder and the next steps."""
    out = console()
    out.print(f"[bold green]streamsched[/] is running: [bold]{started.url}[/]")
    if started.resumed:
        out.print("  it continues with the stored state")
    for notice in started.notices:
        out.print(f"  {notice}", markup=False)
    for warning in started.warnings:
        out.print(f"  [yellow]warning:[/] {warning}")
    out.print(f"  page: {started.page}", markup=False, soft_wrap=True)
    out.print(f"  data folder: {started.folder}", markup=False)
    out.print(
        "  next: streamsched deploy FILE · streamsched schedule list · streamsched event emit partitions DATASET KEY"
    )
    out.print("  Ctrl-C stops it; when started again, it continues with the stored state")
    out.print(f"  log: {started.folder / 'dev.log'}", markup=False)


def _farewell(stopped: Stopped) -> None:
    """Prints which runs continue after the stop."""
    from streamsched.roles.embedded import SHOWN_RUNS

    out = console()
    runs = stopped.runs
    if runs is None:
        out.print("streamsched is stopped; the active runs are unknown")
    elif not runs:
        out.print("streamsched is stopped; no run is active")
    else:
        more = " or more" if len(runs) == SHOWN_RUNS else ""
        number = f"{len(runs)}{more} run{'s' if len(runs) > 1 else ''}"
        out.print(f"streamsched is stopped; {number} {'continue' if len(runs) > 1 else 'continues'} without it:")
        for run in runs:
            out.print(f"  {run.id} is {run.state}; log: {run.log_path or '-'}", markup=False)
        out.print("  their ends are recorded at the next start; until then they cannot be killed or retried")
    out.print(f"  events and jobs are stored in {stopped.folder}; `streamsched dev` continues with them", markup=False)
