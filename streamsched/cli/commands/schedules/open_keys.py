"""`streamsched schedule keys`: the open keys of a schedule."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from streamsched.cli.naming import full_name, short_name, without_default
from streamsched.cli.output import (
    Format,
    FormatOption,
    console,
    count_text,
    escape_text,
    moment,
    print_structured,
    progress_tree,
)
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.shell.completion import schedule_names

_UNSUCCESSFUL: Final = frozenset({"FAILED", "KILLED", "LOST", "ABORTED", "TIMED_OUT", "OBSOLETE", "LAUNCH_FAILED"})
#: Open keys that `schedule show` explains.
_SOME_KEYS: Final = 5


def keys(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedule, [namespace.]app.name.")
    ],
    *,
    after: Annotated[str, typer.Option(metavar="KEY", help="Only keys after this one.")] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of keys.")] = 100,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists the open keys of a correlating schedule (`per`) with their progress."""
    params = {"after": after, "limit": limit}
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}/keys", url=url, params=params)
    if print_structured(found, output):
        return
    out = console()
    if not found["keys"]:
        out.print("no key is open", style="dim")
    print_losses(found)
    for each in found["keys"]:
        out.print(
            f"[bold]{escape_text(each['key'])}[/] open since {moment(each['openedAt'])}{escape_text(_run_of(each))}"
        )
        out.print(progress_tree(each["progress"]))
        _print_missing(each)
    if found.get("next"):
        out.print(f"more: --after {found['next']}", markup=False)


def joins_runs(trigger: Any) -> bool:
    """Whether its keys are runs."""
    inside = trigger.values() if isinstance(trigger, dict) else trigger if isinstance(trigger, list) else ()
    return (isinstance(trigger, dict) and "runOf" in trigger) or any(map(joins_runs, inside))


def print_some_keys(schedule: str, url: str) -> None:
    """What some open keys wait for."""
    for each in ask("GET", f"/v1/schedules/{schedule}/keys", url=url, params={"limit": _SOME_KEYS})["keys"]:
        console().print(f"  [bold]{escape_text(each['key'])}[/]{escape_text(_run_of(each))}")
        _print_missing(each)


def _run_of(key: dict[str, Any]) -> str:
    """Of a key that is a run: of which program, and which job, as far as that is known."""
    if "runOf" not in key:
        return ""
    ancestor, job = short_name(key["runOf"]["program"]), key["runOf"]["job"]
    return f", a run of {ancestor}" + (f": job {short_name(job)}" if job else "")


def _print_missing(key: dict[str, Any]) -> None:
    """What became of the programs whose ends a key waits for."""
    for each in key.get("missing", ()):
        failed = each.get("state") in _UNSUCCESSFUL
        console().print(f"  {without_default(each['text'])}", style="yellow" if failed else "dim", markup=False)


def print_losses(found: dict[str, Any]) -> None:
    """Prints the keys that ended incomplete, the events that were refused and those without a key, in the current
    generation.
    """
    losses, out = found.get("losses"), console()
    if not losses:
        return
    if losses["expiredKeys"]:
        out.print(f"{losses['expiredKeys']} keys expired incomplete (`expires`)", style="yellow")
    if losses["droppedKeys"]:
        out.print(f"{losses['droppedKeys']} keys were dropped: more than `at_most` were open", style="yellow")
    if losses["refusedEvents"]:
        out.print(
            f"{losses['refusedEvents']} events with too many keys or ancestors were refused: `streamsched dlq list`",
            style="yellow",
        )
    if count := losses.get("keylessEvents"):
        keyless = f"{count_text(count, 'event')} had no key, or not for all partitions: {losses['keylessWhy']}"
        out.print(keyless, style="yellow", markup=False)
