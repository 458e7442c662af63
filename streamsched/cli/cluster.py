"""`streamsched cluster`: where runs go, and what room is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from streamsched.cli.output import Format, FormatOption, moment, print_json, print_table
from streamsched.cli.server import UrlOption, ask

_COLUMNS = ("name", "probe", "last reading", "at", "waiting", "gates")


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="Clusters, and the room that jobs wait for.", no_args_is_help=True)
    app.command("list")(list_clusters)
    return app


def list_clusters(*, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """All clusters: the probe, what it read last and when, and which constraints let runs start on that."""
    clusters = ask("GET", "/v1/clusters", url=url)["clusters"]
    if output is Format.JSON:
        print_json(clusters)
    else:
        empty = "no clusters: STREAMSCHED_CLUSTERS names none, and no job waited for one"
        print_table([_row(each) for each in clusters], _COLUMNS, empty=empty)


def _row(cluster: Mapping[str, Any]) -> dict[str, Any]:
    at = cluster["readAt"]
    return {
        "name": cluster["name"],
        "probe": cluster["probe"] or "not configured at this API",
        "last reading": "; ".join(_said(cluster)),
        "at": None if at is None else moment(at) + (" (stale)" if cluster["stale"] else ""),
        "waiting": cluster["waiting"],
        "gates": "\n".join(_gate(each) for each in cluster["gates"]) or None,
    }


def _said(cluster: Mapping[str, Any]) -> Iterator[str]:
    if cluster["failed"]:
        yield f"fails since {moment(cluster['failingSince'])}: {cluster['failed']}"
    if cluster["readAt"] is None:
        yield "none yet: it is asked while jobs wait for it"
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
    state = "open" if gate["open"] else "shut"
    since = "never read" if gate["since"] is None else f"since {moment(gate['since'])}"
    begun = f"{gate['started']} of {gate['startsPerReading']} started, {gate['waiting']} wait"
    return f"{state} {since}: {gate['needs']} ({begun})"
