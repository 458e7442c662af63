"""`streamsched event`: says by hand what programs say with `streamsched.emit`, and asks what became of it."""

from __future__ import annotations

import getpass
import shlex
import socket
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote
from uuid import uuid4

import typer

from streamsched.cli.output import Format, FormatOption, console, escaped, moment, print_json
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.errors import InvalidError

IdOption = Annotated[str, typer.Option("--id", help="Id of the event: a repeat of it changes nothing.")]
Pairs = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...")]


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="Facts from outside.", no_args_is_help=True)
    emit = typer.Typer(help="Says that something happened; returns when the log has it.", no_args_is_help=True)
    emit.command("partitions")(partitions)
    emit.command("stream")(stream)
    emit.command("custom")(custom)
    emit.command("json")(raw)
    app.add_typer(emit, name="emit")
    app.command()(why)
    return app


def partitions(
    dataset: Annotated[str, typer.Argument(help="[namespace.]name")],
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Such as year=2013/month=1.")] = None,
    *,
    count: Annotated[int | None, typer.Option(help="How many, when they are not named.")] = None,
    event_id: IdOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """New partitions of a dataset."""
    data: dict[str, Any] = {"dataset": dataset, "partitions": keys or []}
    if count is not None or not keys:
        data["count"] = 1 if count is None else count
    _emit("partitions.added", data, event_id=event_id, output=output, url=url)


def stream(
    name: Annotated[str, typer.Argument(help="[namespace.]name")],
    size: Annotated[int, typer.Argument(help="Bytes.")],
    *,
    growth: Annotated[bool, typer.Option("--growth", help="It grew by that much, instead of: is that large.")] = False,
    event_id: IdOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """A stream's size."""
    data = {"stream": name, "bytes": size, "absolute": not growth}
    _emit("stream.size", data, event_id=event_id, output=output, url=url)


def custom(
    name: Annotated[str, typer.Argument(help="[namespace.]name")],
    attributes: Pairs = None,
    *,
    event_id: IdOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """An event of your own."""
    data = {"name": name, "attributes": pairs(attributes or ())}
    _emit("custom", data, event_id=event_id, output=output, url=url)


def raw(
    file: Annotated[str, typer.Argument(help="A file, or - for standard input.")] = "-",
    *,
    content_type: Annotated[str, typer.Option(help="How the file says its events.")] = "application/json",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Events as JSON, in any dialect: native, CloudEvents, CDAP notifications; one or a list."""
    if file == "-":
        content = sys.stdin.buffer.read()
    else:
        try:
            content = Path(file).read_bytes()
        except OSError as exc:
            raise InvalidError("FILE", f"{file} cannot be read: {exc.strerror}") from exc
    _tell(_post(content, content_type, url), output)


def why(
    event: Annotated[str, typer.Argument(help="Its id.")],
    *,
    source: Annotated[str, typer.Option(help="Only of this source.")] = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """What became of an event: who counted it, which job took it, or why nobody did. Exits with 3 when it was never
    seen.
    """
    found = ask("GET", f"/v1/events/{quote(event, safe='')}/verdicts", url=url, params={"source": source})
    if output is Format.JSON:
        print_json(found)
    else:
        out = console()
        out.print(found["summary"], markup=False)
        for line in found["verdicts"]:
            out.print(f"[bold]{moment(line['at'])}[/]  {escaped(line['text'])}")
            for then in line["then"]:
                out.print(f"    {then}", markup=False)
        for hint in found["hints"]:
            out.print(hint, markup=False, style="dim")
    if not found["verdicts"]:
        raise typer.Exit(3)


def pairs(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` arguments.

    Raises:
        InvalidError: one has no `=`.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidError("NAME=VALUE", f"'{text}' is not of the form name=value")
        found[name] = value
    return found


def _emit(kind: str, data: dict[str, Any], *, event_id: str, output: Format, url: str) -> None:
    import orjson

    source = f"cli:{getpass.getuser()}@{socket.gethostname()}"
    event = {"id": event_id or uuid4().hex, "source": source, "type": kind, "data": data}
    _tell(_post(orjson.dumps(event), "application/json", url), output)


def _post(content: bytes, content_type: str, url: str) -> dict[str, Any]:
    return ask("POST", "/v1/events", url=url, params={"check": "listeners"}, content=content, content_type=content_type)


def _tell(answer: dict[str, Any], output: Format) -> None:
    """Says what became of the events; exits with 2 when some were refused."""
    if output is Format.JSON:
        print_json(answer)
    else:
        count = answer["accepted"]
        console().print(f"{count} event{'s' if count != 1 else ''} accepted: {', '.join(answer['ids'])}")
        if count == 1:
            asked = f"streamsched event why {shlex.quote(answer['ids'][0])}"
            console().print(f"what becomes of it: `{asked}`", markup=False, style="dim")
    for key in answer.get("unheard") or ():
        typer.secho(
            f"warning: no schedule listens to {key}, so it will start nothing", fg=typer.colors.YELLOW, err=True
        )
    for error in answer["errors"]:
        typer.secho(f"error: event {error['index']}: {error['path']}: {error['reason']}", fg=typer.colors.RED, err=True)
    if answer["errors"]:
        raise typer.Exit(2)
