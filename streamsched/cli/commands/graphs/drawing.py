"""`streamsched graph show`: nodes as a list, and pictures of tasks or of the ancestors of a node."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from streamsched.cli.commands.graphs.plans import App, app_path, ask_graph
from streamsched.cli.naming import short_name
from streamsched.cli.output import FORMATS, Format, console, print_structured, print_table
from streamsched.cli.server import UrlOption
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.domain.errors import InvalidError


class GraphFormat(StrEnum):
    """Output formats of `graph show`: those of all commands, and pictures."""

    TABLE = Format.TABLE.value
    WIDE = Format.WIDE.value
    JSON = Format.JSON.value
    YAML = Format.YAML.value
    NAME = Format.NAME.value
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


def show(
    app: App,
    *,
    task: Annotated[str, typer.Option(help="Only nodes of this task.")] = "",
    job_id: Annotated[
        str, typer.Option("-j", "--job-id", help="With --task: this node and its ancestors, with their states.")
    ] = "",
    state: Annotated[str, typer.Option(help="Only nodes in this state, such as WAITING or FAILED.")] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of nodes.")] = 100,
    output: Annotated[
        GraphFormat,
        typer.Option(
            "-o",
            "--output",
            help=f"{FORMATS} Or a picture of the tasks or of -j: `dot`, `mermaid`, `svg`.",
        ),
    ] = GraphFormat.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists nodes by task and job id, or draws the tasks or the ancestors of a node."""
    if job_id and not task:
        raise InvalidError("--job-id", "is of a task: name it with --task")
    if job_id or output not in tuple(Format):
        _draw(app, {"task": task if job_id else "", "job_id": job_id, "limit": min(limit, 500)}, output, url)
        return
    params = {"limit": limit, **({"task": task} if task else {}), **({"state": state.upper()} if state else {})}
    nodes = ask_graph("GET", f"/v1/graphs/{app_path(app)}/nodes", url=url, params=params)["nodes"]
    if print_structured(nodes, Format(output), names=lambda found: _names(app, found)):
        return
    rows = [
        {**each, "state": each["runState"] or each["state"], "job": each["job"] and short_name(each["job"])}
        for each in nodes
    ]
    columns = (
        Column("task", kind=ColumnKind.ID),
        Column("jobId", "job id", ColumnKind.ID),
        "state",
        Column("job", optional=1),
        Column("reason", kind=ColumnKind.REASON),
    )
    print_table(rows, columns, wide=output is GraphFormat.WIDE, empty="no such nodes")


def _draw(app: str, params: Mapping[str, Any], output: GraphFormat, url: str) -> None:
    plain = output in tuple(Format)
    form = GraphFormat.JSON if plain else output
    found = ask_graph("GET", f"/v1/graphs/{app_path(app)}/picture", url=url, params={"format": form.value, **params})
    if not plain:
        sys.stdout.write(plain_text(found) if sys.stdout.isatty() else found)
    elif not print_structured(found, Format(output), names=lambda found: _names(app, found["nodes"])):
        _print_ancestry(found, wide=output is GraphFormat.WIDE)


def _names(app: str, nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """The arguments of `graph why`."""
    return [f"{app}.{each['task']} {each['jobId']}" for each in nodes]


def _state(node: Mapping[str, Any]) -> str:
    if node["awaits"] is not None:
        return "not arrived" if node["state"] is None else "arrived"
    return node["state"] or "not asked for"


def _print_ancestry(found: Mapping[str, Any], *, wide: bool) -> None:
    needed: dict[int, list[str]] = {}
    for edge in found["edges"]:
        child = found["nodes"][edge["child"]]
        needed.setdefault(edge["parent"], []).append(f"{child['task']} {child['jobId']}")
    rows = [
        {**each, "state": _state(each), "needed": ", ".join(needed.get(number, ())) or None}
        for number, each in enumerate(found["nodes"])
    ]
    columns = (
        Column("task", kind=ColumnKind.ID),
        Column("jobId", "job id", ColumnKind.ID),
        "state",
        Column("needed", "needed by", ColumnKind.TEXT, optional=1, breakable=True),
    )
    print_table(rows, columns, wide=wide, empty="no such nodes")
    if found["hidden"]:
        console().print(f"{found['hidden']} more ancestors; -n shows more", markup=False)
