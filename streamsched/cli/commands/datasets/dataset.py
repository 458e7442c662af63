"""`streamsched dataset`: what came of a dataset, what waits for it, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import short_name, without_default
from streamsched.cli.output import Format, FormatOption, console, count_text, escape_text, print_structured, print_table
from streamsched.cli.resources.listing import Listing, NamespaceFilter, Query, list_command
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.names import DEFAULT_NAMESPACE

_DATASETS: Final = (
    Column("id", "dataset", ColumnKind.ID),
    Column("schedules", "waiting schedules"),
    Column("otherSchedules", "of other namespaces", optional=1),
)
_PARTITIONS: Final = (
    Column("partition", kind=ColumnKind.ID),
    Column("at", "came", ColumnKind.TIME),
    Column("note"),
    Column("rows", optional=2),
    Column("source", kind=ColumnKind.TEXT, optional=1, breakable=True),
)
_SCHEDULES: Final = (
    Column("schedule", "waits for it", ColumnKind.ID),
    Column("state"),
    Column("openKeys", "keys"),
)
_EXPECTATIONS: Final = (
    Column("id", "expectation", ColumnKind.ID),
    Column("state"),
    Column("missingSince", "missing since", ColumnKind.TIME),
    Column("when", kind=ColumnKind.TEXT, optional=1),
)
#: Late and rewritten periods that are named.
_NAMED: Final = 5
_NOTHING_SAYS: Final = (
    "nothing says what belongs to it: no schedule (`rolled_up_to`, `each`) and no expectation (`app.expect`)"
)


def commands() -> typer.Typer:
    """The commands of `streamsched dataset`."""
    app = new_group("Shows datasets: what came, what waits for them, and what is missing.")
    app.command("list")(list_datasets)
    app.command("show")(show)
    return app


@list_command(
    Listing(
        "datasets",
        _DATASETS,
        "no schedule waits for a dataset",
        lambda dataset: {**dataset, "id": short_name(dataset["id"])},
    )
)
def list_datasets(*, namespace: NamespaceFilter = "") -> Query:
    """Lists the datasets for which schedules wait. `event list` shows what came of any."""
    return Query("/v1/datasets", {"namespace": namespace})


def show(
    name: Annotated[str, typer.Argument(metavar="DATASET", help="Dataset, [namespace.]name.")],
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of partitions.")] = 20,
    depth: Annotated[
        int, typer.Option(min=1, max=100_000, help="Newest records of its shard that are searched for its commits.")
    ] = 2000,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows the newest partitions of a dataset, each once, which of them came late or were rewritten, which schedules
    wait for it, what is missing in the open keys of each roll-up, and what is expected of it.
    """
    namespace, _, dataset = (name if "." in name else f"{DEFAULT_NAMESPACE}.{name}").partition(".")
    path = f"/v1/datasets/{quote(namespace, safe='')}/{quote(dataset, safe='')}"
    found = ask("GET", path, url=url, params={"limit": limit, "depth": depth})
    if print_structured(found, output):
        return
    _say(f"{short_name(found['id'])}: {found['completeness']}")
    if found["completeness"] == "no expectation":
        _say(_NOTHING_SAYS, style="yellow")
    for each in found["rollUps"]:
        _print_roll_up(each)
    if found["expectations"]:
        print_table(map(_expectation, found["expectations"]), _EXPECTATIONS, wide=output.is_wide, empty="")
    _print_more(found["moreExpectations"], "expectation")
    schedules = [{**each, "schedule": short_name(each["schedule"])} for each in found["schedules"]]
    print_table(schedules, _SCHEDULES, wide=output.is_wide, empty="no schedule that you may view waits for it")
    _print_more(found["moreSchedules"], "schedule")
    if others := found["otherSchedules"]:
        _say(f"{count_text(others, 'schedule')} of other namespaces, waiting for it too", style="dim")
    searched = "the log" if found["searchedAll"] else f"the last {count_text(found['searched'], 'record')} of its shard"
    empty = f"no partition of it is in {searched}"
    print_table(map(_partition, found["partitions"]), _PARTITIONS, wide=output.is_wide, empty=empty)
    _print_more(found["morePartitions"], "partition", "--limit")
    if not found["searchedAll"]:
        _say(f"{searched} were searched; more: --depth", style="dim")


def _print_roll_up(found: Mapping[str, Any]) -> None:
    name = short_name(found["schedule"])
    if not found["keys"]:
        _say(f"{name}: {_expected_text(found)}, no key is open")
    for key in found["keys"]:
        _say(f"{name} {key['key']}: {_key(key)}", style="" if key["complete"] else "yellow")
    _print_more(found["moreKeys"], "open key")


def _expected_text(found: Mapping[str, Any]) -> str:
    """What belongs to a key."""
    each = f"each {found['each']}" if found.get("each") else ""
    if found["rolledUpTo"]:
        return f"each {found['rolledUpTo']} by {found['grain']}{' and ' * bool(each)}{each}"
    return f"{each} of each {found['grain'] or 'key'}"


def _key(key: Mapping[str, Any]) -> str:
    enough = f" ({key['needed']} are enough)" if key["needed"] != key["expected"] else ""
    parts = [f"{key['present']} of {key['expected']}{enough}"]
    if key["missing"]:
        parts.append(f"missing {key['missing']}")
    for word in ("late", "rewritten"):
        if key[word]:
            more = key[f"{word}Count"] - len(key[word][:_NAMED])
            parts.append(f"{word} {', '.join(key[word][:_NAMED])}" + (f" and {more} more" if more else ""))
    return ", ".join(parts)


def _partition(found: Mapping[str, Any]) -> dict[str, Any]:
    times = f"rewritten {count_text(found['rewritten'], 'time')}" if found["rewritten"] else ""
    return {**found, "note": ", ".join(filter(None, ("late" if found["late"] else "", times)))}


def _expectation(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found, "id": short_name(found["id"]), "when": without_default(found["when"])}


def _print_more(number: int, noun: str, option: str = "") -> None:
    if number:
        _say(f"{count_text(number, f'more {noun}')}" + (f": {option}" if option else ""), style="dim")


def _say(text: str, style: str = "") -> None:
    console().print(escape_text(text), style=style or None)
