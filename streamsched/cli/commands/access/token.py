"""`streamsched token`: tokens of the API, and `streamsched audit`: who requested which change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, print_record, print_structured
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.client.api_call import api_path

#: Exit code of a check that found a problem.
WRONG: Final = 1
TokenArgument = Annotated[str, typer.Argument(metavar="TOKEN", help="Name or id of the token.")]


def token_commands() -> typer.Typer:
    """The commands of `streamsched token`."""
    app = new_group("Creates, lists and revokes tokens of the API.")
    app.command("create")(create)
    app.command("list")(list_)
    app.command("revoke")(revoke)
    app.command("current")(current)
    return app


def audit_commands() -> typer.Typer:
    """The commands of `streamsched audit`."""
    app = new_group("Shows who requested which change, and checks that nothing was altered.")
    app.command("list")(audit_list)
    app.command("verify")(audit_verify)
    return app


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, such as its owner's.")],
    *,
    role: Annotated[
        str, typer.Option("--role", help="viewer, emitter, operator, developer or admin; each of the last four can "
                          "what its predecessors can, except that an emitter cannot view.")
    ],
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Namespace in which it holds; can be repeated. Default: all."),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--names", help="Pattern of names of datasets, streams and events it may announce, such as "
                     "'raw_*'; can be repeated. Default: all."),
    ] = None,
    shell: Annotated[
        bool,
        typer.Option("--shell", help="A developer may deploy what executes on launchers: bash, python, and Spark in "
                     "client mode or by Connect. Without it: Spark in cluster mode."),
    ] = False,
    master: Annotated[
        list[str] | None,
        typer.Option("--master", help="Pattern of Spark masters that a developer's programs may name; can be repeated. "
                     "Default: only the installation's."),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="Duration, such as 90d. Default: the token does not expire.")
    ] = None,
    direct: Annotated[
        bool,
        typer.Option("--direct", help="Write to the database (STREAMSCHED_DATABASE_URL) instead of using the API: for "
                     "the first token of an installation."),
    ] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:  # fmt: skip
    """Creates a token and prints it. It is not stored and cannot be shown again.

    Commands read it from STREAMSCHED_TOKEN, as programs that emit events do.
    """
    grant: dict[str, Any] = {"role": role}
    if names:
        grant["names"] = names
    if shell:
        grant["shell"] = True
    if master:
        grant["masters"] = master
    grants = [{**grant, "namespace": each} for each in namespace] if namespace else [grant]
    body = {"name": name, "grants": grants, "expiresIn": expires_in}
    found = _created_directly(body) if direct else ask("POST", "/v1/tokens", url=url, body=body)
    if print_structured(found, output):
        return
    typer.echo(found["text"])
    typer.secho(f"token '{plain_text(name)}' is created; it is shown only now", err=True, dim=True)


@list_command(
    Listing(
        "tokens",
        (
            Column("name", kind=ColumnKind.ID),
            Column("may", kind=ColumnKind.TEXT),
            Column("expiresAt", "expires", ColumnKind.TIME),
            Column("usedAt", "last used", ColumnKind.TIME),
            Column("invalid", kind=ColumnKind.REASON),
            Column("id", optional=1),
        ),
        "no tokens; `streamsched token create NAME --role ROLE` makes one",
        lambda token: {**token, "may": ", ".join(map(_grant_text, token["grants"]))},
    )
)
def list_() -> Query:
    """Lists tokens, also those that expired or were revoked."""
    return Query("/v1/tokens")


@request_command
def revoke(token: TokenArgument) -> CommandRequest:
    """Revokes a token. Within a second no API process accepts it."""
    return action_request(
        api_path("tokens", token, "revoke"),
        lambda found: f"token '{plain_text(found['name'])}' is revoked",
        names=lambda found: [found["name"]],
    )


@request_command
def current() -> CommandRequest:
    """Shows the name and the permissions of the token that commands send."""
    return CommandRequest(
        path="/v1/caller",
        show=lambda found: print_record({"name": found["name"], "may": list(map(_grant_text, found["grants"]))}),
    )


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "method": entry["action"].partition(" ")[0], "outcome": _outcome(entry["detail"])}


@list_command(
    Listing(
        "entries",
        (
            Column("number", kind=ColumnKind.ID),
            Column("at", kind=ColumnKind.TIME),
            Column("caller", kind=ColumnKind.TEXT, breakable=True),
            "method",
            Column("target", kind=ColumnKind.TEXT, breakable=True),
            Column("outcome", kind=ColumnKind.REASON),
        ),
        "no changes were recorded",
        _entry,
    )
)
def audit_list(
    *, caller: Annotated[str, typer.Option("--caller", help="Only changes of this caller, such as `token:ci`.")] = ""
) -> Query:
    """Lists requests of changes, newest first, each with its outcome as another entry."""
    return Query("/v1/audit", {"caller": caller})


def audit_verify(*, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Checks that no entry of the audit was changed, removed or inserted.

    Keep the printed hash elsewhere: it proves later that no entry was removed from the end. Exit code 1: the audit is
    not as it was written.
    """
    found = ask("GET", "/v1/audit/verify", url=url, timeout=600)
    if print_structured(found, output, names=lambda found: [found["last"] or found["number"]]):
        pass
    elif found["intact"]:
        gone = f" ({found['removed']} before them were kept for their time)" if found["removed"] else ""
        console().print(f"{found['entries']} entries, all as written{gone}; the hash of the last one: {found['last']}")
    else:
        typer.secho(plain_text(f"entry {found['number']}: {found['reason']}"), fg=typer.colors.RED, err=True)
    if not found["intact"]:
        raise typer.Exit(WRONG)


def _created_directly(body: dict[str, Any]) -> dict[str, Any]:
    import asyncio

    from streamsched.cli.commands.admin import settings_here
    from streamsched.roles.access import create_token_directly

    return asyncio.run(create_token_directly(settings_here().database_url, body, by=f"{_user()} with --direct"))


def _user() -> str:
    return os.environ.get("USER") or f"uid {os.getuid()}"


def _grant_text(grant: dict[str, Any]) -> str:
    where = "everywhere" if grant["namespace"] == "*" else f"in {grant['namespace']}"
    more = [f"names {' '.join(grant['names'])}"] if grant.get("names") else []
    more += ["shell"] if grant.get("shell") else []
    more += [f"masters {' '.join(grant['masters'])}"] if grant.get("masters") else []
    return f"{grant['role']} {where}" + (f" ({'; '.join(more)})" if more else "")


def _outcome(detail: dict[str, Any]) -> str:
    if "status" not in detail:
        return "dry run requested" if "dry_run=true" in str(detail.get("query", "")).lower() else "requested"
    reason = f": {detail['reason']}" if detail.get("reason") else ""
    return f"{detail['status']} (request {detail['request']}){reason}"
