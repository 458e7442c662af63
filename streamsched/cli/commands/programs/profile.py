"""`streamsched profile`: Spark profiles, settings in one place, which Spark programs name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.confirmation import YesOption, confirm
from streamsched.cli.group import new_group
from streamsched.cli.naming import short_name
from streamsched.cli.output import Format, FormatOption, console, moment, print_answer
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.client.api_call import api_path
from streamsched.domain.errors import InvalidError

NameArgument = Annotated[str, typer.Argument(metavar="PROFILE", help="Name of the profile.")]
NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace", help="Namespace of the profile; '*': of the installation, for programs of all namespaces."
    ),
]


def commands() -> typer.Typer:
    """The commands of `streamsched profile`."""
    app = new_group("Sets Spark profiles: settings in one place, which Spark programs name.")
    app.command("list")(list_profiles)
    app.command("show")(show)
    app.command("set")(set_)
    app.command("delete")(delete)
    return app


@list_command(
    Listing(
        "profiles",
        (Column("name", kind=ColumnKind.ID), "namespace", "master", "settings"),
        "no profiles yet",
        lambda profile: {**profile, "settings": len(profile["conf"])},
        paged=False,
    )
)
def list_profiles(*, namespace: NamespaceOption = "default") -> Query:
    """Lists the profiles of a namespace and those of the installation."""
    return Query(_path(namespace))


@request_command
def show(name: NameArgument, *, namespace: NamespaceOption = "default") -> CommandRequest:
    """Shows a profile and the programs that get it. Secrets are shown as references."""
    return CommandRequest(path=_path(namespace, name), show=_print)


@request_command
def set_(
    name: NameArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="SETTING=VALUE", help="Settings of Spark, such as spark.locality.wait=1s."),
    ] = None,
    *,
    secrets: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="SETTING=REFERENCE", help="A setting whose value is a secret; repeatable."),
    ] = None,
    master: Annotated[str | None, typer.Option("--master", help="Spark master URL.")] = None,
    driver_cores: Annotated[int | None, typer.Option("--driver-cores", help="Cores of the driver.")] = None,
    driver_memory: Annotated[str | None, typer.Option("--driver-memory", help="Memory of the driver, as 2g.")] = None,
    executors: Annotated[int | None, typer.Option("--executors", help="Number of executors.")] = None,
    executor_cores: Annotated[int | None, typer.Option("--executor-cores", help="Cores of each executor.")] = None,
    executor_memory: Annotated[str | None, typer.Option("--executor-memory", help="Memory of each executor.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Read the profile from a YAML or JSON file; '-': standard input.")
    ] = None,
    namespace: NamespaceOption = "default",
    reason: ReasonOption = "",
) -> CommandRequest:
    """Stores a profile, or replaces it as a whole. Runs that start afterwards have its settings.

    A program's own settings override those of its profile.
    """
    driver = _given_values(cores=driver_cores, memory=driver_memory)
    size = _given_values(instances=executors, cores=executor_cores, memory=executor_memory)
    conf: dict[str, Any] = dict(pairs(settings or ()))
    conf |= {each: {"secret": reference} for each, reference in pairs(secrets or ()).items()}
    body = _given_values(master=master, conf=conf or None, driver=driver or None, executors=size or None)
    if file is not None:
        from streamsched.define.loading import read_data

        if body:
            raise InvalidError("--file", "has the whole profile; give no other settings")
        body = read_data(file)
        if not isinstance(body, dict):
            raise InvalidError("--file", "must have an object")
    return CommandRequest(method="PUT", path=_path(namespace, name), body={**body, "reason": reason}, show=_print)


def delete(
    name: NameArgument,
    *,
    namespace: NamespaceOption = "default",
    yes: YesOption = False,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deletes a profile.

    If programs use it, it lists them and asks for confirmation at a terminal; without a terminal it needs --yes
    (otherwise exit code 7). Their runs fail until there is a profile of this name again.
    """
    found = ask("GET", _path(namespace, name), url=url)
    if found["users"] and not yes:
        if not output.is_structured:
            console().print(f"profile {plain_text(name)} is used by:", markup=False)
            for user in found["users"]:
                console().print(f"  {short_name(user)}", markup=False)
        confirm(
            "Delete it?",
            declined="nothing was changed",
            refused="not deleted, because programs use it; `--yes` deletes it",
            quiet=output.is_structured,
        )
    params = {"force": bool(found["users"]), "reason": reason}
    deleted = ask("DELETE", _path(namespace, name), url=url, params=params)
    print_answer(deleted, output, lambda _: f"profile {plain_text(name)} was deleted")


def _path(namespace: str, *name: str) -> str:
    return api_path("namespaces", namespace, "spark-profiles", *name)


def _given_values(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _print(found: dict[str, Any]) -> None:
    out = console()
    lines = [f"master {plain_text(found['master'])}"] if found.get("master") else []
    for part in ("driver", "executors"):
        if found.get(part):
            lines.append(f"{part} " + ", ".join(f"{name} {value}" for name, value in found[part].items()))
    for name, value in found["conf"].items():
        written = value if isinstance(value, str) else f"(secret {value['secret']})"
        lines.append(f"{plain_text(name)}={plain_text(written)}")
    lines += [f"used by {short_name(each)}" for each in found["users"]] or ["used by no program"]
    if not found.get("shell", True):
        lines.append("set without the permission shell: for programs with deploy_mode cluster only")
    because = f": {plain_text(found['reason'])}" if found["reason"] else ""
    lines.append(f"last changed {moment(found['changedAt'])}{because}")
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
