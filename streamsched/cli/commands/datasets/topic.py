"""`streamsched watch topic`: turns the growth of a topic into stream sizes."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from streamsched.cli.output import console
from streamsched.cli.server import UrlOption, find_url
from streamsched.cli.table import plain_text

if TYPE_CHECKING:
    from streamsched.spark.streaming.topic_watcher import TopicWatcher, TopicWatchResult


class Counted(StrEnum):
    """What is counted."""

    BYTES = "bytes"
    RECORDS = "records"


class Begin(StrEnum):
    """Where to begin on a dataset or a topic that was never watched."""

    NOW = "now"
    START = "start"


def topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    *,
    stream: Annotated[
        str, typer.Option("--stream", "-s", help="Stream of the events, [namespace.]name. The bookmark has its name.")
    ],
    broker: Annotated[
        str, typer.Option(help="URL of the topic's Kafka, such as kafka://host:9092/?security=ssl; its own, not ours.")
    ],
    measure: Annotated[
        Counted, typer.Option(help="What counts as size: bytes of one copy on disk, or records by their offsets.")
    ] = Counted.BYTES,
    begin: Annotated[
        Begin,
        typer.Option("--begin", help="Where to begin without a bookmark: with what comes from now on, or with all."),
    ] = Begin.NOW,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two checks of the topic.")] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Announce the growth until now and exit.")] = False,
    url: UrlOption = "",
) -> None:
    """Watches how a topic of Kafka grows. Needs the extra `kafka`, and no Spark.

    What the topic has grown by since the last check becomes one event, once, also when this is killed. What retention
    deletes is not taken off. Where it is, is kept by the API as bookmark `watch-topic.<stream>`.
    """
    from streamsched.domain.names import StreamRef
    from streamsched.emit.bookmarks import BookmarkClient
    from streamsched.emit.client import Emitter
    from streamsched.emit.destination import namespace
    from streamsched.spark.streaming.topic_measuring import measure_topic
    from streamsched.spark.streaming.topic_position import StreamMeasure
    from streamsched.spark.streaming.topic_watcher import TopicWatcher
    from streamsched.spark.streaming.topic_watching import watch_topic_until_stopped
    from streamsched.spark.tables.watcher import First
    from streamsched.telemetry.logs import configure_logs

    configure_logs(style=os.environ.get("STREAMSCHED_LOG_FORMAT", "auto"))
    ref = StreamRef.parse(stream, namespace())
    counted = StreamMeasure(measure.value)
    at = find_url(url)
    with Emitter(at, source=f"/streams/{ref}") as emitter:
        watcher = TopicWatcher(
            ref,
            name,
            lambda: measure_topic(broker, name, counted),
            measure=counted,
            bookmarks=BookmarkClient(at),
            emitter=emitter,
            first=First(begin.value),
        )
        if once:
            _print(watcher, watcher.run_once())
        else:
            watch_topic_until_stopped(watcher, every=every)


def _print(watcher: TopicWatcher, seen: TopicWatchResult) -> None:
    """Prints the result of one check.

    Raises:
        typer.Exit: the server refused an event (exit code 2).
    """
    out = console()
    if seen.began:
        out.print(f"{watcher.stream} is watched from now on: bookmark {watcher.bookmark}", markup=False)
    for note in seen.notes:
        typer.secho(plain_text(f"warning: {note}"), fg=typer.colors.YELLOW, err=True)
    for each in seen.sent:
        out.print(
            f"{watcher.stream}: {each.amount} {watcher.measure}, event {each.event_id}", markup=False, soft_wrap=True
        )
    if not seen.sent and not seen.began and not seen.refused:
        out.print(f"{watcher.stream}: nothing new", style="dim")
    for why in seen.refused:
        typer.secho(plain_text(f"error: {why}"), fg=typer.colors.RED, err=True)
    if seen.refused:
        raise typer.Exit(2)
