"""`streamsched dapr job`: jobs of the apps of Dapr's API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from streamsched.cli.confirmation import YesOption, confirm
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, moment, print_record, print_structured
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.server import UrlOption, ask, request
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError, UnavailableError

#: Seconds that an export or an import may take.
_LONG_S: Final = 900.0

AppOption = Annotated[
    str,
    typer.Option(
        "--app-id",
        "-i",
        envvar="STREAMSCHED_DAPR_APP_ID",
        help="Id of the app whose jobs they are. Default: the only app of the namespace.",
    ),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", envvar="STREAMSCHED_DAPR_NAMESPACE", help="Namespace of the app.")
]
Name = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")]
PrefixOption = Annotated[str, typer.Option(help="Only jobs whose names begin with this.")]


def commands() -> typer.Typer:
    """The commands of `streamsched dapr job`."""
    app = new_group("Schedules, shows, deletes, exports and imports jobs.")
    for name, command in (
        ("schedule", schedule),
        ("get", get),
        ("list", list_jobs),
        ("next", next_fires),
        ("delete", delete),
        ("export", export),
        ("import", import_jobs),
    ):
        app.command(name)(command)
    return app


def schedule(
    *,
    name: Annotated[str, typer.Option(help="Name of the job.")],
    app_id: AppOption = "",
    namespace: NamespaceOption = "default",
    schedule: Annotated[
        str, typer.Option("--schedule", help="Cron of six fields, @daily, @every 1h30m, or a period such as R4/PT3S.")
    ] = "",
    due_time: Annotated[
        str, typer.Option(help="First delivery: 2026-03-01T06:00:00Z, or after a duration such as 10m or PT10M.")
    ] = "",
    repeats: Annotated[int | None, typer.Option(min=1, help="Number of deliveries. Default: no limit.")] = None,
    ttl: Annotated[str, typer.Option(help="The end, as a due time is written; counts from the due time.")] = "",
    data: Annotated[str, typer.Option(help="What is delivered: JSON, else a text.")] = "",
    max_retries: Annotated[int | None, typer.Option(min=0, help="Deliveries after a failed one. Default: 3.")] = None,
    retry_interval: Annotated[str, typer.Option(help="Time between them, in seconds, such as 1.5s.")] = "",
    misfire: Annotated[str, typer.Option(help="Missed deliveries: all, one (the newest) or skip.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a job of this name.")] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Schedules a job."""
    texts = {"schedule": schedule, "dueTime": due_time, "ttl": ttl, "misfire": misfire}
    body: dict[str, Any] = {name: text for name, text in texts.items() if text}
    if repeats is not None:
        body["repeats"] = repeats
    if data:
        body["data"] = _data(data)
    if max_retries is not None or retry_interval:
        retries = 3 if max_retries is None else max_retries
        body["failurePolicy"] = {"constant": {"maxRetries": retries, "interval": retry_interval or "1s"}}
    if overwrite:
        body["overwrite"] = True
    app = _app(app_id, namespace, url)
    found = ask("POST", _path(namespace, app, "jobs", name), url=url, body=body)
    if print_structured(found, output, names=lambda _: [name]):
        return
    console().print(f"{name} of {app}: first delivery {moment(found['nextFire'])}", markup=False)


def get(
    name: Name,
    *,
    app_id: AppOption = "",
    namespace: NamespaceOption = "default",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows a job with its next and last deliveries."""
    found = ask("GET", _path(namespace, _app(app_id, namespace, url), "jobs", name), url=url)
    if print_structured(found, output, names=lambda _: [name]):
        return
    shown = {key: value for key, value in found.items() if key not in ("task", "history", "data", "failurePolicy")}
    for key in ("nextFire", "lastFire"):
        if key in shown:
            shown[key] = moment(shown[key])
    print_record({**shown, "task": found["task"]["id"], "data": json.dumps(found.get("data"))})
    for each in found["history"]:
        console().print(
            f"  {moment(each['endedAt'])} {each['state']} after {len(each['attempts'])}: {each['reason']}", markup=False
        )


@list_command(
    Listing(
        "jobs",
        (
            Column("name", kind=ColumnKind.ID),
            Column("schedule", kind=ColumnKind.TEXT),
            Column("nextFire", "next fire", ColumnKind.TIME),
            Column("fired"),
            Column("repeats", optional=1),
            Column("ttl", kind=ColumnKind.TIME),
            Column("error", kind=ColumnKind.REASON),
        ),
        "no jobs",
        paged=False,
    )
)
def list_jobs(
    *, app_id: AppOption = "", namespace: NamespaceOption = "default", prefix: PrefixOption = "", url: str = ""
) -> Query:
    """Lists the jobs of an app."""
    return Query(_path(namespace, _app(app_id, namespace, url), "jobs"), {"prefix": prefix})


def next_fires(
    name: Name,
    *,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="Number of deliveries.")] = 10,
    app_id: AppOption = "",
    namespace: NamespaceOption = "default",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists the next deliveries of a job."""
    path = _path(namespace, _app(app_id, namespace, url), "jobs", name, "next")
    found = ask("GET", path, url=url, params={"count": count})
    if print_structured(found, output):
        return
    for each in found["next"]:
        console().print(moment(each), markup=False)


def delete(
    names: Annotated[list[str] | None, typer.Argument(metavar="JOB…", help="Names of jobs.")] = None,
    *,
    app_id: AppOption = "",
    namespace: NamespaceOption = "default",
    prefix: Annotated[str, typer.Option(help="Instead of names: all jobs whose names begin with this.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Instead of names: all jobs of the app.")] = False,
    yes: YesOption = False,
    url: UrlOption = "",
) -> None:
    """Deletes jobs, also while they are delivered.

    `--all` asks for confirmation at a terminal; without a terminal it needs --yes (otherwise exit code 7).
    """
    if [bool(names), bool(prefix), every].count(True) != 1:
        raise typer.BadParameter("give either names, or --prefix, or --all")
    app = _app(app_id, namespace, url)
    if prefix or every:
        if every and not yes:
            confirm(
                f"delete all jobs of {app}?",
                declined="no job was deleted",
                refused=f"all jobs of {app} would be deleted; confirm by --yes",
                quiet=False,
            )
        params = {"prefix": prefix} if prefix else {"all": "true"}
        deleted = ask("DELETE", _path(namespace, app, "jobs"), url=url, params=params)["deleted"]
        console().print(f"deleted {deleted}")
        return
    for name in names or ():
        ask("DELETE", _path(namespace, app, "jobs", name), url=url)
        console().print(f"deleted {name}", markup=False)


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    *,
    app_id: AppOption = "",
    namespace: NamespaceOption = "default",
    prefix: PrefixOption = "",
    url: UrlOption = "",
) -> None:
    """Writes the jobs of an app to a file, all at one moment, with the number of their deliveries so far."""
    found = request(
        "GET",
        _path(namespace, _app(app_id, namespace, url), "export"),
        url=url,
        params={"prefix": prefix},
        timeout=_LONG_S,
    )
    lines = found.content.splitlines()
    if not lines or "jobs" not in (last := json.loads(lines[-1])) or "name" in last:
        raise UnavailableError("the export was cut off; try again")
    try:
        with file.open("xb") as opened:
            opened.write(found.content)
    except OSError as exc:
        raise InvalidError("$", f"{file} cannot be written: {exc.strerror}") from exc
    console().print(f"exported {last['jobs']} to {file}", markup=False)


def import_jobs(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written by `export`.")],
    *,
    app_id: AppOption = "",
    namespace: NamespaceOption = "default",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace jobs of the same names.")] = False,
    url: UrlOption = "",
) -> None:
    """Stores the jobs of a file, all or none; repeats go on where they were."""
    try:
        content = file.read_bytes()
    except OSError as exc:
        raise InvalidError("$", f"{file} cannot be read: {exc}") from exc
    found = ask(
        "POST",
        _path(namespace, _app(app_id, namespace, url), "import"),
        url=url,
        params={"overwrite": "true"} if overwrite else None,
        content=content,
        content_type="application/x-ndjson",
        timeout=_LONG_S,
    )
    console().print(f"imported {found['imported']}")


def _app(given: str, namespace: str, url: str) -> str:
    """The id of the app: `given`, else that of the only app of the namespace.

    Raises:
        InvalidError: there is none, or more than one.
    """
    if given:
        return given
    prefix = f"dapr.{namespace}."
    found = ask("GET", "/v1/queues", url=url, params={"after": prefix, "limit": 2})["queues"]
    apps = [each["name"].removeprefix(prefix) for each in found if each["name"].startswith(prefix)]
    if len(apps) == 1:
        return apps[0]
    why = f"{apps[0]}, {apps[1]} and perhaps more have jobs there" if apps else "no app has had jobs there"
    raise InvalidError("--app-id", f"is not given, nor STREAMSCHED_DAPR_APP_ID, and in namespace {namespace} {why}")


def _path(*parts: str) -> str:
    return "/v1/dapr/" + "/".join(quote(part, safe="") for part in parts)


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
