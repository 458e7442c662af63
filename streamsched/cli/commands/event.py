"""`streamsched event`: emits events from the command line, and shows the verdicts of events."""

from __future__ import annotations

import getpass
import shlex
import socket
import sys
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote
from uuid import uuid4

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.group import new_group
from streamsched.cli.naming import field_path, without_default
from streamsched.cli.output import Format, FormatOption, console, escape_text, local_times, moment, print_structured
from streamsched.cli.resources.listing import Listing, print_items
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.domain.errors import InvalidError

_EVENTS: Final = Listing(
    "events",
    (
        Column("at", "logged", ColumnKind.TIME),
        Column("key", kind=ColumnKind.ID),
        Column("what", kind=ColumnKind.TEXT, breakable=True),
        Column("id", "event", ColumnKind.ID),
        Column("source", kind=ColumnKind.TEXT, optional=1, breakable=True),
        Column("position", optional=2),
    ),
    "no events yet",
    lambda event: {
        **event,
        "key": without_default(event["key"] or "-"),
        "what": without_default(event["problem"] or event["what"]),
    },
    name=lambda event: event["id"] or "",
)
IdOption = Annotated[
    str, typer.Option("--id", help="Id of the event. An event with a known id has no effect. Default: a random id.")
]


def commands() -> typer.Typer:
    """The commands of `streamsched event`."""
    app = new_group("Emits events and shows what schedules made of them.")
    emit = new_group("Emits an event; returns when the log has acknowledged it.")
    emit.command("partitions")(partitions)
    emit.command("stream")(stream)
    emit.command("custom")(custom)
    emit.command("json")(raw)
    app.add_typer(emit, name="emit")
    app.command("list")(list_events)
    app.command()(why)
    return app


def list_events(
    *,
    text: Annotated[str, typer.Option("--text", help="Only events whose record contains this, in any case.")] = "",
    depth: Annotated[
        int, typer.Option(min=1, max=100_000, help="Newest records of each partition of a topic that are searched.")
    ] = 1000,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=100, help="Number of events.")] = 30,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists the newest events of the log, newest first."""
    found = ask("GET", "/v1/events", url=url, params={"text": text, "depth": depth, "limit": limit})
    print_items(_EVENTS, found["events"], output, filtered=bool(text))
    if not output.is_structured and not found["searchedAll"]:
        console().print(f"{found['searched']} records were searched; more: --depth", style="dim")


def partitions(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Dataset, [namespace.]name.")],
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Partitions, such as year=2013/month=1.")
    ] = None,
    *,
    count: Annotated[
        int | None, typer.Option(help="Number of new partitions, instead of keys. Default without keys: 1.")
    ] = None,
    event_id: IdOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Emits the event that a dataset has new partitions."""
    data: dict[str, Any] = {"dataset": _full_name(dataset), "partitions": keys or []}
    if count is not None or not keys:
        data["count"] = 1 if count is None else count
    _emit("partitions.added", data, event_id=event_id, output=output, url=url)


def stream(
    name: Annotated[str, typer.Argument(metavar="STREAM", help="Stream, [namespace.]name.")],
    size: Annotated[int, typer.Argument(metavar="BYTES", help="Size of the stream in bytes.")],
    *,
    growth: Annotated[bool, typer.Option("--growth", help="BYTES is the growth, not the total size.")] = False,
    event_id: IdOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Emits the event that a stream has a new size."""
    data = {"stream": _full_name(name), "bytes": size, "absolute": not growth}
    _emit("stream.size", data, event_id=event_id, output=output, url=url)


def custom(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the event, [namespace.]name.")],
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Attributes of the event.")
    ] = None,
    *,
    event_id: IdOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Emits a custom event."""
    data = {"name": _full_name(name), "attributes": pairs(attributes or ())}
    _emit("custom", data, event_id=event_id, output=output, url=url)


def raw(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to read; `-` is standard input.")] = "-",
    *,
    content_type: Annotated[
        str, typer.Option(help="Content type of the file, such as application/cloudevents+json.")
    ] = "application/json",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Emits one event or a list of events from JSON: native, CloudEvents, or of the form of a dialect."""
    if file == "-":
        content = sys.stdin.buffer.read()
    else:
        try:
            content = Path(file).read_bytes()
        except OSError as exc:
            raise InvalidError("FILE", f"{file} cannot be read: {exc.strerror}") from exc
    _print_result(_post(content, content_type, url), output)


def why(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Id of the event.")],
    *,
    source: Annotated[str, typer.Option(help="Only the event of this source. Default: any source.")] = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows the verdicts of an event: the schedules that counted it, the jobs that consumed it, or why none did.

    Exit code 3: no verdict is known.
    """
    found = ask("GET", f"/v1/events/{quote(event, safe='')}/verdicts", url=url, params={"source": source})
    if not print_structured(found, output, names=lambda _: [event]):
        out = console()
        out.print(local_times(found["summary"]), markup=False)
        for line in found["verdicts"]:
            out.print(f"[bold]{moment(line['at'])}[/]  {escape_text(local_times(line['text']))}")
            for then in line["then"]:
                out.print(f"    {local_times(then)}", markup=False)
        for hint in found["hints"]:
            out.print(hint, markup=False, style="dim")
    if not found["verdicts"]:
        raise typer.Exit(3)


def _full_name(name: str) -> str:
    """A name with a namespace. Default: the namespace of the run that executes this command, else `default`."""
    from streamsched.emit.destination import namespace

    return name if "." in name else f"{namespace()}.{name}"


def _emit(kind: str, data: dict[str, Any], *, event_id: str, output: Format, url: str) -> None:
    import json  # numbers of any size: the server says which are too large

    from streamsched.emit.trace import this_context

    source = f"cli:{getpass.getuser()}@{socket.gethostname()}"
    context = this_context()
    traced = {} if context is None else {"traceparent": context}
    event = {"id": event_id or uuid4().hex, "source": source, "type": kind, **traced, "data": data}
    _print_result(_post(json.dumps(event).encode(), "application/json", url), output)


def _post(content: bytes, content_type: str, url: str) -> dict[str, Any]:
    return ask("POST", "/v1/events", url=url, params={"check": "listeners"}, content=content, content_type=content_type)


def _print_result(result: dict[str, Any], output: Format) -> None:
    """Prints the accepted events, warnings and errors.

    Raises:
        typer.Exit: some events were refused (exit code 2).
    """
    if not print_structured(result, output):
        count = result["accepted"]
        console().print(f"{count} event{'s' if count != 1 else ''} accepted: {', '.join(result['ids'])}")
        if count == 1:
            command = f"streamsched event why {shlex.quote(result['ids'][0])}"
            console().print(f"verdicts: `{command}`", markup=False, style="dim")
    for key in result.get("unheard") or ():
        typer.secho(
            plain_text(f"warning: no schedule listens to {key}, so the event starts nothing"),
            fg=typer.colors.YELLOW,
            err=True,
        )
    for each in result.get("keyless") or ():
        of = "" if result["accepted"] == 1 else f"event {each['id']}: "
        typer.secho(
            plain_text(f"warning: {of}schedules listen to {each['key']}, but {each['why']}"),
            fg=typer.colors.YELLOW,
            err=True,
        )
    for error in result["errors"]:
        prefix = f"{path}: " if (path := field_path(error["path"])) else ""
        typer.secho(
            plain_text(f"error: event {error['index']}: {prefix}{error['reason']}"), fg=typer.colors.RED, err=True
        )
    if (more := result.get("refused", 0) - len(result["errors"])) > 0:
        typer.secho(f"error: {more} more events were refused", fg=typer.colors.RED, err=True)
    if result["errors"]:
        raise typer.Exit(2)
