"""`streamsched cluster`: clusters and their load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import moment
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.table import Column, ColumnKind

_COLUMNS: Final = (
    Column("name", kind=ColumnKind.ID),
    Column("last reading", kind=ColumnKind.TEXT),
    Column("at", kind=ColumnKind.TIME),
    Column("waiting"),
    Column("gates", kind=ColumnKind.TEXT, optional=1),
    Column("probe", optional=2),
)


def commands() -> typer.Typer:
    """The commands of `streamsched cluster`."""
    app = new_group("Lists clusters and the load that jobs wait for.")
    app.command("list")(list_clusters)
    return app


def _row(cluster: Mapping[str, Any]) -> dict[str, Any]:
    at = cluster["readAt"]
    return {
        "name": cluster["name"],
        "probe": cluster["probe"] or "not configured at this API",
        "last reading": "; ".join(_load_lines(cluster)),
        "at": None if at is None else moment(at) + (" (stale)" if cluster["stale"] else ""),
        "waiting": cluster["waiting"],
        "gates": "\n".join(_gate(each) for each in cluster["gates"]) or None,
    }


@list_command(
    Listing("clusters", _COLUMNS, "no clusters: STREAMSCHED_CLUSTERS has none, and no job has waited for one", _row)
)
def list_clusters() -> Query:
    """Lists clusters with their probe, its last reading, and whether that reading lets the waiting jobs start."""
    return Query("/v1/clusters")


def _load_lines(cluster: Mapping[str, Any]) -> Iterator[str]:
    if cluster["failed"]:
        yield f"fails since {moment(cluster['failingSince'])}: {cluster['failed']}"
    if cluster["readAt"] is None:
        yield "none yet: the load is read while jobs wait for it"
        return
    measures = (
        ("freeCores", 1, "{:g} cores free"),
        ("freeMemory", 1_000_000, "{:.0f} MB free"),
        ("running", 1, "{} running"),
    )
    yield ", ".join(
        text.format(cluster[name] / unit if unit > 1 else cluster[name])
        for name, unit, text in measures
        if cluster[name] is not None
    )


def _gate(gate: Mapping[str, Any]) -> str:
    state = "open" if gate["open"] else "closed"
    since = "never read" if gate["since"] is None else f"since {moment(gate['since'])}"
    starts = f"{gate['started']} of {gate['startsPerReading']} started, {gate['waiting']} waiting"
    return f"{state} {since}: {gate['needs']} ({starts})"
