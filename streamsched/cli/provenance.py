"""Prints a run with its origin, the source of each argument, and its chain of attempts and reruns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from streamsched.cli.naming import short_name, without_default
from streamsched.cli.output import console, print_record, print_table, state_style
from streamsched.cli.run_metrics import metric_lines, size
from streamsched.cli.table import Column, ColumnKind

_ARGUMENTS: Final = (
    Column("name", "argument", ColumnKind.TEXT),
    Column("value", kind=ColumnKind.TEXT),
    Column("source", "from"),
)
_CHAIN: Final = (
    Column("number", "#"),
    Column("run", kind=ColumnKind.ID),
    Column("state", style=state_style),
    Column("repeats"),
    Column("startedAt", "started", ColumnKind.TIME),
)
_COMMITS: Final = (
    Column("dataset", "committed to", ColumnKind.ID),
    Column("partitions"),
    Column("rows"),
    Column("size"),
    Column("at", kind=ColumnKind.TIME),
    Column("commit", optional=1),
)


def print_run(found: Mapping[str, Any]) -> None:
    """Prints a run as `GET /v1/runs/{run}` returns it."""
    provenance, metrics = found["provenance"], metric_lines(found["metrics"])
    commits = found["commits"]
    found = {name: value for name, value in found.items() if name not in ("metrics", "commits")}
    if provenance is None:
        print_record({name: value for name, value in found.items() if name != "provenance"} | metrics)
        _print_commits(commits, found["state"])
        return
    origin = provenance["origin"]
    apart = ("arguments", "provenance", "rerunOf", "muted", "driver")
    driver: Mapping[str, str] = found.get("driver") or {}
    print_record(
        {
            **{name: value for name, value in found.items() if name not in apart},
            "driver": driver and f"{driver['id']} at {driver['master']}",
            "driver log": driver.get("logs"),
            "muted": found["muted"] or None,
            "origin": without_default(origin["text"]),
            "rerun of": origin["rerunOf"] and short_name(origin["rerunOf"]),
            "backfill": origin["backfill"] and f"job {origin['item']} of {short_name(origin['backfill'])}",
            "events": "\n".join(map(without_default, origin["events"])),
            **metrics,
        }
    )
    _print_commits(commits, found["state"])
    if found["arguments"]:
        console().print()
        print_table(_arguments(found["arguments"], provenance), _ARGUMENTS, empty="")
    if provenance["changedSince"]:
        what = " and ".join(provenance["changedSince"])
        console().print(f"changed since the run was made: {what}; a source may have been another", style="dim")
    if provenance["chain"]:
        console().print()
        print_table(_chain_rows(provenance["chain"]), _CHAIN, empty="")


def _print_commits(commits: Sequence[Mapping[str, Any]], state: str) -> None:
    if not commits:
        return
    console().print()
    print_table([{**each, "size": size(each["bytes"])} for each in commits], _COMMITS, empty="")
    if state in ("FAILED", "KILLED", "LOST"):
        again = "another attempt finds what is committed and does not write it again; a rerun writes all of it"
        console().print(f"committed, then {state.lower()}: {again}", style="dim")


def _arguments(arguments: Mapping[str, str], provenance: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of the trigger last: every run has them."""
    sources = provenance["arguments"]
    for name in sorted(arguments, key=lambda each: (sources[each] == "trigger", each)):
        yield {"name": name, "value": arguments[name], "source": sources[name]}


def _chain_rows(chain: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows with numbers; `repeats` has the number of the run that a rerun or a further attempt repeats."""
    numbers = {each["run"]: number for number, each in enumerate(chain, 1)}
    for number, each in enumerate(chain, 1):
        former = number - 1 if (each["attempt"] or 1) > 1 else numbers.get(each["rerunOf"] or "")
        yield {
            "number": number,
            "run": short_name(each["run"] or each["job"]),
            "state": each["state"] or "no run yet",
            "repeats": former,
            "startedAt": each["startedAt"],
        }
