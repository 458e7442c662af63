"""`streamsched context`: the servers that the user works with, by name."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from streamsched.cli.connection.contexts import Contexts, ServerContext, contexts_file, read_contexts, write_contexts
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, print_answer
from streamsched.cli.resources.listing import Listing, print_items
from streamsched.cli.server import describe_server
from streamsched.cli.shell.completion import context_names
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError

_CONTEXTS: Final = Listing(
    "contexts",
    (
        Column("current", " "),
        Column("name", "context", ColumnKind.ID),
        Column("url", "URL", ColumnKind.ID),
        Column("token", kind=ColumnKind.TEXT, optional=1, breakable=True),
    ),
    "no contexts: `streamsched context set NAME --url URL`",
    lambda context: {**context, "current": "*" if context["current"] else ""},
    name=lambda context: context["name"],
)

_NAME: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")

Name = Annotated[
    str, typer.Argument(metavar="CONTEXT", autocompletion=context_names, help="Name of the context, such as prod.")
]


def commands() -> typer.Typer:
    """The commands of `streamsched context`."""
    app = new_group("Names servers, and chooses the one that the commands use.")
    app.command("list")(list_contexts)
    app.command("use")(use)
    app.command("set")(set_context)
    app.command("delete")(delete)
    return app


def list_contexts(*, output: FormatOption = Format.TABLE) -> None:
    """Lists the contexts, and says which server a command without --url and --context uses here."""
    contexts = read_contexts(os.environ)
    print_items(_CONTEXTS, [_item(each, contexts) for each in contexts.known.values()], output)
    if not output.is_structured:
        console().print(f"here: {describe_server(os.environ.get('STREAMSCHED_URL', ''))}", markup=False)


def use(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CONTEXT",
            autocompletion=context_names,
            help="Name of the context. `-` : none is the current one.",
        ),
    ],
    *,
    output: FormatOption = Format.TABLE,
) -> None:
    """Makes a context the current one. Commands use it unless they are given another server.

    --url, --context, STREAMSCHED_URL, and a `streamsched dev` that runs in this folder or a parent come first.
    """
    contexts = read_contexts(os.environ)
    chosen = "" if name == "-" else contexts.find(name).name
    write_contexts(replace(contexts, current=chosen), os.environ)
    print_answer(
        {"current": chosen or None},
        output,
        lambda _: f"the current context is {chosen}" if chosen else "there is no current context",
        names=lambda _: [chosen] if chosen else [],
    )


def set_context(
    name: Name,
    *,
    server: Annotated[str, typer.Option("--url", help="URL of the API. Required for a new context.")] = "",
    token_env: Annotated[
        str, typer.Option(metavar="VARIABLE", help="Read the token from this variable whenever it is used.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the token from this file whenever it is used.")
    ] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the token from standard input now, and store it.")
    ] = False,
    no_token: Annotated[bool, typer.Option("--no-token", help="Forget the token.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Adds a context, or changes one; what is not given stays as it is.

    Contexts are stored in the user's configuration folder, in a file that only its owner may read. The first context
    becomes the current one.
    """
    if not _NAME.fullmatch(name):
        raise InvalidError("CONTEXT", f"'{name}' must consist of letters, digits, `.`, `-` and `_`")
    contexts = read_contexts(os.environ)
    known = contexts.known.get(name)
    if not server and known is None:
        raise InvalidError("--url", f"context '{name}' is new: give its URL")
    given = (bool(token_env), token_file is not None, token_stdin, no_token)
    if sum(given) > 1:
        raise typer.BadParameter("at most one of --token-env, --token-file, --token-stdin and --no-token can be given")
    context = (
        replace(known, url=_check_url(server)) if known and server else known or ServerContext(name, _check_url(server))
    )
    if any(given):
        token = sys.stdin.readline().strip() if token_stdin else ""
        if token_stdin and not token:
            raise InvalidError("--token-stdin", "standard input has no token")
        file = "" if token_file is None else str(token_file.absolute())
        context = replace(context, token=token, token_env=token_env, token_file=file)
    changed = contexts.put(context)
    if not contexts.known:
        changed = replace(changed, current=name)
    path = write_contexts(changed, os.environ)
    print_answer(_item(context, changed), output, lambda _: f"context {name} is stored in {path}")


def delete(name: Name, *, output: FormatOption = Format.TABLE) -> None:
    """Deletes a context. The server is not changed."""
    contexts = read_contexts(os.environ)
    context = contexts.find(name)
    write_contexts(contexts.remove(name), os.environ)
    said = f"context {context.name} is deleted from {contexts_file(os.environ)}"
    none_left = "\nthere is no current context" if contexts.current == name else ""
    print_answer(_item(context, contexts), output, lambda _: said + none_left)


def _item(context: ServerContext, contexts: Contexts) -> dict[str, Any]:
    current = context.name == contexts.current
    return {"name": context.name, "url": context.url, "token": context.token_source, "current": current}


def _check_url(url: str) -> str:
    """Raises:
    InvalidError: it is not the URL of a server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError("--url", f"'{url}' is not the URL of a server, such as https://streamsched.example.org")
    if parts.password or parts.username:
        raise InvalidError(
            "--url", "has a user or password; give a token with --token-env, --token-file or --token-stdin"
        )
    return url.rstrip("/")
