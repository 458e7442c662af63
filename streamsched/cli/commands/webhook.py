"""`streamsched webhook`: targets that are sent changes of jobs and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from streamsched.cli.confirmation import YesOption, confirm
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, print_answer, print_record, print_structured
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.client.api_call import api_path

#: Exit code of a test that was not accepted.
REFUSED = 1
NameArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Name of the webhook.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", help="Namespace of the webhook.")]


def commands() -> typer.Typer:
    """The commands of `streamsched webhook`."""
    app = new_group("Manages webhooks: targets that are sent changes of jobs and runs, signed.")
    app.command("create")(create)
    app.command("change")(change)
    app.command("list")(list_webhooks)
    app.command("show")(show)
    app.command("test")(send_test)
    app.command("disable")(disable)
    app.command("enable")(enable)
    app.command("delete")(delete)
    return app


def create(
    name: NameArgument,
    target: Annotated[str, typer.Argument(metavar="URL", help="Where changes are sent, by POST.")],
    *,
    changes: Annotated[
        list[str] | None,
        typer.Option("--change", help="A change that is sent, such as run.failed, job.*, failure or recovery; "
                     "repeatable. Default: all."),
    ] = None,
    schedules: Annotated[
        list[str] | None, typer.Option("--schedule", help="Only changes of this schedule; repeatable.")
    ] = None,
    programs: Annotated[
        list[str] | None, typer.Option("--program", help="Only changes of runs of this program; repeatable.")
    ] = None,
    secret: Annotated[
        str, typer.Option("--secret", help="Reference to the signing secret, such as env:HOOK_KEY, which launchers "
                          "read. Default: one is generated and shown once.")
    ] = "",
    mode: Annotated[
        str, typer.Option("--mode", help="structured: the body is the CloudEvent; binary: its attributes are headers.")
    ] = "structured",
    timeout: Annotated[str, typer.Option("--timeout", help="Wait for an answer, at most 1m.")] = "15s",
    form: Annotated[
        str, typer.Option("--format", help="cloudevents: each change; slack, teams: messages for people, at most one a "
                          "minute, by default about failures (--change failure).")
    ] = "cloudevents",
    namespace: NamespaceOption = "default",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:  # fmt: skip
    """Creates a webhook and prints its signing secret, which cannot be shown again.

    The target is sent the changes from now on, each at least once, those of a schedule in their order.
    """
    body: dict[str, Any] = {
        "name": name,
        "url": target,
        "mode": mode,
        "timeout": timeout,
        "format": form,
        **({"changes": changes} if changes else {}),
        **({"schedules": schedules} if schedules else {}),
        **({"programs": programs} if programs else {}),
        **({"secret": {"secret": secret}} if secret else {}),
    }
    found = ask("POST", _path(namespace), url=url, body=body)
    if print_structured(found, output):
        return
    if "signingSecret" in found:
        typer.echo(found["signingSecret"])
        typer.secho(f"webhook '{plain_text(name)}' is created; its secret is shown only now", err=True, dim=True)
    else:
        typer.secho(f"webhook '{plain_text(name)}' is created", err=True, dim=True)


def change(
    name: NameArgument,
    *,
    target: Annotated[str, typer.Option("--to", metavar="URL", help="Where all are sent, also those that wait.")] = "",
    changes: Annotated[
        list[str] | None, typer.Option("--change", help="A change that is sent, in place of those before; repeatable.")
    ] = None,
    schedules: Annotated[
        list[str] | None, typer.Option("--schedule", help="A schedule, in place of those before; repeatable.")
    ] = None,
    programs: Annotated[
        list[str] | None, typer.Option("--program", help="A program, in place of those before; repeatable.")
    ] = None,
    secret: Annotated[str, typer.Option("--secret", help="Reference to the signing secret: env:HOOK_KEY.")] = "",
    new_secret: Annotated[bool, typer.Option("--new-secret", help="Generate a secret, which is shown once.")] = False,
    old_secret_for: Annotated[
        str, typer.Option("--old-secret-for", help="How long the secret before signs beside the new one: 1d unless "
                          "given, at most 7d; 0s ends it at once.")
    ] = "",
    mode: Annotated[str, typer.Option("--mode", help="structured or binary.")] = "",
    timeout: Annotated[str, typer.Option("--timeout", help="Wait for an answer, at most 1m.")] = "",
    form: Annotated[str, typer.Option("--format", help="cloudevents, slack or teams.")] = "",
    namespace: NamespaceOption = "default",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:  # fmt: skip
    """Changes a webhook in place: what is not given stays, and changes that wait are sent as it says now.

    `--change 'job.*' --change 'run.*'` sends all again.
    """
    if new_secret and secret:
        raise typer.BadParameter("give --secret or --new-secret, not both")
    given = {"url": target, "changes": changes, "schedules": schedules, "programs": programs,
             "mode": mode, "timeout": timeout, "format": form, "secret": {"secret": secret} if secret else "",
             "oldSecretFor": old_secret_for}  # fmt: skip
    body: dict[str, Any] = {field: value for field, value in given.items() if value}
    if new_secret:
        body["secret"] = None
    if not body:
        raise typer.BadParameter("name what is to change, such as --to URL")
    found = ask("PATCH", _path(namespace, name), url=url, body=body)
    if "signingSecret" in found and not output.is_structured:
        typer.echo(found["signingSecret"])
        until = found["oldSecretUntil"]
        old = f"; the old one signs too until {plain_text(until)}" if until else "; the old one signs no more"
        typer.secho(f"webhook '{plain_text(name)}' has a new secret, which is shown only now{old}", err=True, dim=True)
    else:
        print_answer(found, output, _print)


def _row(webhook: Mapping[str, Any]) -> dict[str, Any]:
    return {**webhook, "error": webhook["error"] or (None if webhook["enabled"] else webhook["reason"])}


@list_command(
    Listing(
        "webhooks",
        (
            Column("name", kind=ColumnKind.ID),
            Column("url", kind=ColumnKind.TEXT, breakable=True),
            "enabled",
            "queued",
            Column("deliveredAt", "delivered", ColumnKind.TIME),
            Column("nextAt", "next try", ColumnKind.TIME),
            Column("error", kind=ColumnKind.REASON),
        ),
        "no webhooks; `streamsched webhook create NAME URL` makes one",
        _row,
    )
)
def list_webhooks(*, namespace: NamespaceOption = "default") -> Query:
    """Lists the webhooks of a namespace with how their deliveries go."""
    return Query(_path(namespace))


@request_command
def show(name: NameArgument, *, namespace: NamespaceOption = "default") -> CommandRequest:
    """Shows a webhook: what it is sent, what waits for it, the last error and the next attempt."""
    return CommandRequest(path=_path(namespace, name), show=_print)


def send_test(
    name: NameArgument,
    *,
    namespace: NamespaceOption = "default",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sends an event of type streamsched.webhook.test once, and shows the answer.

    Exit code 1: the target has not accepted it.
    """
    found = ask("POST", _path(namespace, name, "test"), url=url, body={})
    print_answer(
        found, output, lambda _: f"{'accepted' if found['accepted'] else 'not accepted'}: {plain_text(found['answer'])}"
    )
    if not found["accepted"]:
        raise typer.Exit(REFUSED)


@request_command
def disable(name: NameArgument, *, namespace: NamespaceOption = "default", reason: ReasonOption = "") -> CommandRequest:
    """Sends nothing more to a webhook until it is enabled. Changes wait for that."""
    return action_request(_path(namespace, name, "disable"), _print, reason=reason)


@request_command
def enable(name: NameArgument, *, namespace: NamespaceOption = "default", reason: ReasonOption = "") -> CommandRequest:
    """Goes on with the first change that the target has not accepted."""
    return action_request(_path(namespace, name, "enable"), _print, reason=reason)


def delete(
    name: NameArgument,
    *,
    namespace: NamespaceOption = "default",
    yes: YesOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deletes a webhook with the changes that wait for it.

    If changes wait, it asks for confirmation at a terminal; without a terminal it needs --yes (otherwise exit code 7).
    """
    waiting = ask("GET", _path(namespace, name), url=url)["queued"]
    if waiting and not yes:
        confirm(
            f"{waiting} changes wait for webhook {plain_text(name)}. Delete them too?",
            declined="nothing was changed",
            refused=f"not deleted, because {waiting} changes wait for it; `--yes` deletes them too",
            quiet=output.is_structured,
        )
    deleted = ask("DELETE", _path(namespace, name), url=url)
    print_answer(deleted, output, lambda _: f"webhook {plain_text(name)} was deleted")


def _path(namespace: str, *parts: str) -> str:
    return api_path("namespaces", namespace, "webhooks", *parts)


def _print(found: dict[str, Any]) -> None:
    reference = found["secret"]
    record = {**found, "secret": "generated" if reference is None else reference["secret"]}
    print_record({name: value for name, value in record.items() if value not in (None, [], "")})
