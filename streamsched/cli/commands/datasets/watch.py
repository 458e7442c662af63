"""`streamsched watch`: turns commits of tables and folders, and growth of topics, into events."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.commands.datasets.topic import Begin, topic
from streamsched.cli.group import new_group
from streamsched.cli.output import console
from streamsched.cli.server import UrlOption, find_url
from streamsched.cli.table import plain_text

if TYPE_CHECKING:
    from streamsched.spark.tables.table_source import TableSource
    from streamsched.spark.tables.watcher import Watcher, WatchResult


DatasetOption = Annotated[
    str, typer.Option("--dataset", "-d", help="Dataset of the events, [namespace.]name. The bookmark has its name.")
]
BeginOption = Annotated[
    Begin,
    typer.Option("--begin", help="Where to begin when there is no bookmark: after the newest commit, or at the first."),
]
EveryOption = Annotated[float, typer.Option(min=0.1, help="Seconds between two checks of the table.")]
OnceOption = Annotated[bool, typer.Option("--once", help="Announce what is new and exit.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Option of the storage. Secrets belong into the environment, such as AWS_SECRET_ACCESS_KEY.",
    ),
]


def commands() -> typer.Typer:
    """The commands of `streamsched watch`."""
    app = new_group("Watches a table, a folder or a topic: each commit of new data, and all growth, becomes one event.")
    app.command()(delta)
    app.command()(iceberg)
    app.command()(folder)
    app.command()(topic)
    return app


def delta(
    location: Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL of the table, such as s3://lake/x.")],
    *,
    dataset: DatasetOption,
    begin: BeginOption = Begin.NOW,
    every: EveryOption = 5.0,
    once: OnceOption = False,
    option: StorageOption = None,
    url: UrlOption = "",
) -> None:
    """Watches a Delta Lake table. Needs the extra `delta`, and no Spark.

    Each version that added data becomes one event with its partitions, rows and bytes, once, also when this is killed.
    Compactions are no events. Where it is, is kept by the API as bookmark `watch.<dataset>`.
    """
    from streamsched.spark.tables.delta_source import DeltaSource

    _watch(DeltaSource(location, pairs(option or ())), dataset, begin, every, once=once, url=url)


def iceberg(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="namespace.table of the catalog; without one, the table's folder.")
    ],
    *,
    dataset: DatasetOption,
    catalog: Annotated[
        str, typer.Option(help="Catalog, by its name in .pyiceberg.yaml or PYICEBERG_CATALOG__<NAME>__….")
    ] = "",
    begin: BeginOption = Begin.NOW,
    every: EveryOption = 5.0,
    once: OnceOption = False,
    option: StorageOption = None,
    url: UrlOption = "",
) -> None:
    """Watches an Iceberg table. Needs the extra `iceberg`, and no Spark.

    Each snapshot that added data becomes one event with its partitions, rows and bytes, once, also when this is killed.
    Compactions are no events. Where it is, is kept by the API as bookmark `watch.<dataset>`.
    """
    from streamsched.spark.tables.iceberg_source import IcebergSource

    _watch(
        IcebergSource(table, catalog=catalog, options=pairs(option or ())), dataset, begin, every, once=once, url=url
    )


def folder(
    location: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder or URL above the partitions, such as s3://lake/logs.")
    ],
    *,
    dataset: DatasetOption,
    marker: Annotated[
        str | None,
        typer.Option(
            help="File that makes the partitions at and below it complete. Default without --quiet: _SUCCESS."
        ),
    ] = None,
    quiet: Annotated[
        str | None, typer.Option(help="How long no file of a partition may have changed, such as 2m.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Count the rows of Parquet files by their footers.")] = False,
    begin: BeginOption = Begin.NOW,
    every: EveryOption = 5.0,
    once: OnceOption = False,
    option: StorageOption = None,
    url: UrlOption = "",
) -> None:
    """Watches a folder of partitions, such as day=2026-01-01. Needs the extra `storage`, for S3 the extra `s3`.

    Each partition that is complete and new, or has changed since, becomes one event with its size, once, also when this
    is killed. Where it is, is kept by the API as bookmark `watch.<dataset>`.
    """
    from streamsched.domain.time.duration import parse_duration
    from streamsched.ports.clock import SystemClock
    from streamsched.spark.tables.folder_source import Completeness, FolderSource

    complete = Completeness(
        "_SUCCESS" if marker is None and quiet is None else marker,
        None if quiet is None else parse_duration(quiet, "--quiet"),
    )
    source = FolderSource(location, complete, clock=SystemClock(), rows=rows, options=pairs(option or ()))
    _watch(source, dataset, begin, every, once=once, url=url)


def _watch(source: TableSource, name: str, begin: Begin, every: float, *, once: bool, url: str) -> None:
    from streamsched.domain.names import DatasetRef
    from streamsched.emit.bookmarks import BookmarkClient
    from streamsched.emit.client import Emitter
    from streamsched.emit.destination import namespace
    from streamsched.spark.tables.watcher import First, Watcher
    from streamsched.spark.tables.watching import watch_until_stopped
    from streamsched.telemetry.logs import configure_logs

    configure_logs(style=os.environ.get("STREAMSCHED_LOG_FORMAT", "auto"))
    dataset = DatasetRef.parse(name, namespace())
    at = find_url(url)
    with Emitter(at, source=f"/datasets/{dataset}") as emitter:
        bookmarks = BookmarkClient(at)
        watcher = Watcher(dataset, source, bookmarks=bookmarks, emitter=emitter, first=First(begin.value))
        if once:
            _print(watcher, watcher.run_once())
        else:
            watch_until_stopped(watcher, every=every, cues=lambda: bookmarks.cues(watcher.bookmark))


def _print(watcher: Watcher, seen: WatchResult) -> None:
    """Prints the result of one check.

    Raises:
        typer.Exit: the server refused a commit (exit code 2).
    """
    out = console()
    if seen.began:
        out.print(f"{watcher.dataset} is watched from now on: bookmark {watcher.bookmark}", markup=False)
    for note in seen.notes:
        typer.secho(plain_text(f"warning: {note}"), fg=typer.colors.YELLOW, err=True)
    for commit in seen.commits:
        many = len(commit.partitions)
        what = commit.partitions[0].key if many == 1 else f"{many} partitions"
        out.print(
            f"{watcher.dataset}: {plain_text(what)}, {commit.rows} rows, event {commit.id}",
            markup=False,
            soft_wrap=True,
        )
    if not seen.commits and not seen.began:
        out.print(f"{watcher.dataset}: nothing new", style="dim")
    for why in seen.refused:
        typer.secho(plain_text(f"error: {why}"), fg=typer.colors.RED, err=True)
    if seen.refused:
        raise typer.Exit(2)
