"""`streamsched queue`: queues of tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, print_answer, print_record, print_structured
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path
from streamsched.domain.errors import InvalidError
from streamsched.domain.tasks.layout import MOST_PARTITIONS, LayoutStep
from streamsched.domain.tasks.queue import TaskIdentity

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]

#: Members that describe what is in a queue, not its policy.
_CONTENT = frozenset({"name", "paused", "tasks", "inFlight", "readyAt"})
#: Where the partitions of lanes are, and seconds between two requests for them.
_PARTITIONS: Final = "/v1/tasks/partitions"
_POLL_S: Final = 0.2


def commands() -> typer.Typer:
    """The commands of `streamsched queue`."""
    app = new_group("Manages queues of tasks: where tasks go, how they are retried, how many at a time.")
    app.command("list")(list_queues)
    app.command("show")(show)
    app.command("set")(set_queue)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("reshard")(reshard)
    return app


def _row(queue: Mapping[str, Any]) -> dict[str, Any]:
    return {**queue, "target": target_text(queue["target"]), "paused": queue["paused"] or None}


@list_command(
    Listing(
        "queues",
        (
            Column("name", kind=ColumnKind.ID),
            Column("target", kind=ColumnKind.TEXT, breakable=True),
            "tasks",
            Column("inFlight", "in flight"),
            Column("readyAt", "ready", ColumnKind.TIME),
            "paused",
        ),
        "no queues yet: make one with `streamsched queue set`",
        _row,
    )
)
def list_queues() -> Query:
    """Lists queues with their targets, tasks, and when the first lane is ready."""
    return Query("/v1/queues")


@request_command
def show(queue: QueueName) -> CommandRequest:
    """Shows a queue with its policy."""
    return CommandRequest(path=api_path("queues", queue), show=_print)


def set_queue(
    queue: QueueName,
    *,
    http: Annotated[str, typer.Option(help="Target: URL to which each task is sent by POST.")] = "",
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Header of the requests; can be repeated.")
    ] = None,
    timeout: Annotated[str, typer.Option(help="Longest wait for a response or a heartbeat, such as 30s.")] = "",
    publish: Annotated[str, typer.Option(help="Target: name of the event as which each task is published.")] = "",
    worker: Annotated[bool, typer.Option("--worker", help="Target: connected workers.")] = False,
    max_losses: Annotated[
        int | None, typer.Option(min=0, help="Times that a task is repeated whose worker was lost. Default: 5.")
    ] = None,
    retries: Annotated[
        int | None, typer.Option(min=0, help="Attempts after the first. Default of a new queue: 100.")
    ] = None,
    retry_delay: Annotated[
        str, typer.Option(help="Wait after the first failure; doubles with each. Default of a new queue: 20s.")
    ] = "",
    retry_period: Annotated[str, typer.Option(help="Retry without a bound, at this period.")] = "",
    grace: Annotated[str, typer.Option(help="Refuse tasks that were due longer ago than this.")] = "",
    dedupe: Annotated[
        str, typer.Option(help="How long ended tasks are recognised as repeats. Default of a new queue: 14d.")
    ] = "",
    max_in_flight: Annotated[int | None, typer.Option(min=1, help="Most tasks in flight at a time.")] = None,
    rate: Annotated[float | None, typer.Option(help="Most deliveries per second on average.")] = None,
    burst: Annotated[int | None, typer.Option(min=1, help="Most deliveries at once within the rate.")] = None,
    identity: Annotated[
        TaskIdentity | None,
        typer.Option(help="What tasks of a lane must have in common to be one. Only of a new queue; default: key."),
    ] = None,
    ends: Annotated[str, typer.Option(help="Name of the event as which each end of a task is published.")] = "",
    policy: Annotated[str, typer.Option(metavar="JSON", help="The whole policy as JSON, instead of options.")] = "",
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Creates a queue or changes its policy. Options that are not given stay as they are."""
    if policy:
        try:
            body: dict[str, Any] = dict(json.loads(policy))
        except (ValueError, TypeError) as exc:
            raise InvalidError("--policy", f"is no JSON object: {exc}") from exc
    else:
        found = ask("GET", "/v1/queues", url=url, params={"after": queue[:-1], "limit": 1000})["queues"]
        body = next((_policy(each) for each in found if each["name"] == queue), {})
    body |= _target(http, header, timeout, publish, max_losses, worker=worker, known=body.get("target"))
    if retry_period:
        body["retry"] = {"type": "period", "period": retry_period}
    if retries is not None or retry_delay:
        former = body.get("retry", {})
        kept = former if former.get("type") == "backoff" else {}
        body["retry"] = {**kept, "type": "backoff", **_given_values(retries=retries, delay=retry_delay or None)}
    body |= _given_values(
        grace=grace or None, dedupe=dedupe or None, maxInFlight=max_in_flight, rate=rate, burst=burst, reason=reason
    )
    body |= _given_values(identity=identity, ends=ends or None)
    print_answer(ask("PUT", api_path("queues", queue), url=url, body=body), output, _print)


@request_command
def pause(queue: QueueName, *, reason: ReasonOption = "") -> CommandRequest:
    """Pauses a queue: tasks are registered and none is started."""
    return _request(queue, "pause", reason)


@request_command
def resume(queue: QueueName, *, reason: ReasonOption = "") -> CommandRequest:
    """Resumes a queue."""
    return _request(queue, "resume", reason)


def target_text(target: Mapping[str, Any]) -> str:
    """A target for people."""
    return " ".join(str(target[name]) for name in ("type", "url", "event") if name in target)


def _request(queue: str, action: str, reason: str) -> CommandRequest:
    def show(found: Mapping[str, Any]) -> str:
        state = "paused" if found["paused"] else "not paused"
        return f"queue {queue} is {state}: {found['tasks']} tasks, {found['inFlight']} in flight"

    return action_request(api_path("queues", queue, action), show, reason=reason)


def _print(found: Mapping[str, Any]) -> None:
    shown = {**found, "target": target_text(found["target"])}
    shown["retry"] = ", ".join(f"{name} {value}" for name, value in found["retry"].items() if name != "type")
    print_record(shown)


def _policy(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in _CONTENT}


def _given_values(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _target(
    http: str,
    header: list[str] | None,
    timeout: str,
    publish: str,
    max_losses: int | None,
    *,
    worker: bool,
    known: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if sum(map(bool, (http, publish, worker))) > 1:
        raise typer.BadParameter("give one of --http, --publish and --worker")
    if publish:
        return {"target": {"type": "publish", "event": publish}}
    workers = known is not None and known["type"] == "worker"
    if worker or (workers and not http and (timeout or max_losses is not None)):
        kept = known if known is not None and workers else {}
        return {"target": {**kept, "type": "worker", **_given_values(timeout=timeout or None, maxLosses=max_losses)}}
    if max_losses is not None:
        raise typer.BadParameter("--max-losses is only for queues of workers: give --worker")
    own = _given_values(url=http or None, timeout=timeout or None, headers=pairs(header) if header else None)
    if not own:
        if known is None:
            raise typer.BadParameter("a new queue needs a target: --http, --publish or --worker")
        return {}
    kept = known if known is not None and known["type"] == "http" else {}
    return {"target": {**kept, "type": "http", **own}}


def reshard(
    *,
    partitions: Annotated[int, typer.Option(min=1, max=MOST_PARTITIONS, help="New number of partitions of lanes.")],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when all lanes have moved, or at once.")
    ] = True,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Changes the number of partitions, which is the largest number of launchers that can share the tasks.

    Launchers move the lanes while they deliver. If the command is interrupted, they go on; run it again to wait.
    """
    before = ask("GET", _PARTITIONS, url=url)["partitions"]
    found = ask("PUT", _PARTITIONS, url=url, body={"partitions": partitions})
    noted = ""
    while wait and not found["settled"] and found["wanted"] == partitions:
        note = _reshard_note(found)
        if note != noted:
            typer.secho(note, err=True)
            noted = note
        time.sleep(_POLL_S)
        found = ask("GET", _PARTITIONS, url=url)
    if output.is_structured:
        print_structured(found, output)
    elif found["wanted"] != partitions:
        typer.echo(f"another change was asked for meanwhile: to {found['wanted']} partitions")
    elif found["settled"]:
        typer.echo(f"changed from {before} to {partitions} partitions")
    else:
        typer.echo(f"asked for {partitions} partitions; launchers change it from {found['partitions']}")


def _reshard_note(found: dict[str, Any]) -> str:
    if found["step"] == LayoutStep.AWAIT_OWNERS:
        return f"{found['taken']} of {found['wanted']} partitions have an owner; waiting for launchers"
    return "lanes are moved; those in flight when their delivery has ended"
