"""Printing of the plan of a change: what would change and what would be lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from streamsched.cli.differences import difference_lines
from streamsched.cli.naming import short_name, without_default
from streamsched.cli.output import console, escape_text

#: Most new programs or schedules that are listed; further ones are counted. Changes and deletions are all listed.
_MOST_CREATED: Final = 50
_SIGNS: Final = {"created": "[green]+[/]", "deleted": "[red]-[/]"}


def print_preview(preview: Mapping[str, Any]) -> None:
    """Prints each program and schedule that would change, its changed fields, and what it would keep or lose."""
    out = console()
    _print_waiting(preview.get("waitingElsewhere", {}))
    print_broken_joins(preview)
    if not preview["differs"]:
        out.print("nothing would change", style="dim")
        return
    for kind in ("programs", "schedules"):
        created = [each for each in preview[kind] if each["action"] == "created"]
        hidden = {each["id"] for each in created[_MOST_CREATED:]}
        for each in preview[kind]:
            if each["id"] in hidden:
                continue
            because = (
                f": {escape_text(without_default(each['reason']))}" if each["reason"] not in {"", "deployed"} else ""
            )
            sign = _SIGNS.get(each["action"], "[yellow]~[/]")
            out.print(f"{sign} {kind[:-1]} [bold]{short_name(each['id'])}[/] would be {each['action']}{because}")
            for line in _lines(each):
                out.print(f"    {line}")
        if hidden:
            out.print(f"{_SIGNS['created']} {len(hidden)} more {kind} would be created")
    for each in preview.get("expectations", ()):
        sign = _SIGNS.get(each["action"], "[yellow]~[/]")
        says = f": {escape_text(without_default(each['when']))}" if each["action"] != "deleted" else ""
        out.print(f"{sign} expectation [bold]{short_name(each['id'])}[/] would be {each['action']}{says}")
    recipients = preview.get("onFailure")
    if recipients is not None:
        listed = ", ".join(_recipient(each) for each in recipients["after"]) or "none"
        out.print(f"[yellow]~[/] failures would be sent to: {escape_text(listed)}")


def _recipient(recipient: Mapping[str, Any]) -> str:
    kind = next(each for each in ("mail", "webhook", "program") if each in recipient)
    return ", ".join(recipient["mail"]) if kind == "mail" else f"{kind} {recipient[kind]}"


def _print_waiting(waiting: Mapping[str, Any]) -> None:
    """What waits in other namespaces for a program that would be removed, and stays as it is."""
    for name in waiting.get("schedules", ()):
        console().print(
            f"[yellow]![/] schedule [bold]{short_name(name)}[/] waits for a removed program; it would say so"
        )
    others = waiting.get("others", 0)
    if others:
        which = (
            "1 schedule of another namespace waits" if others == 1 else f"{others} schedules of other namespaces wait"
        )
        console().print(f"[yellow]![/] {which} for a removed program")


def print_broken_joins(change: Mapping[str, Any]) -> None:
    """The joins per run of an ancestor that a change breaks."""
    for each in change.get("brokenJoins", ()):
        text = escape_text(without_default(each["text"]))
        console().print(f"[yellow]![/] schedule [bold]{short_name(each['schedule'])}[/] {text}")


def dropped_lines(change: Mapping[str, Any]) -> Iterator[str]:
    """The losses of a change, one per line."""
    for stake in change.get("accumulated", ()):
        yield _amount(stake)
    for name, one, many in _COUNTS:
        if count := change.get(name, 0):
            yield f"{count} {one if count == 1 else many}"


#: Losses besides accumulated events: the member of a plan, and the singular and plural of what it counts.
_COUNTS: Final = (
    ("openKeys", "open key", "open keys"),
    ("waitingJobs", "waiting job", "waiting jobs"),
    ("parkedSignals", "parked signal", "parked signals"),
)


def _lines(change: Mapping[str, Any]) -> Iterator[str]:
    has_sentence = any(field["field"] == "when" for field in change.get("fields", ()))
    for field in change.get("fields", ()):
        if not (has_sentence and field["field"] == "trigger"):
            yield from map(escape_text, difference_lines(field))
    if change.get("join"):
        yield escape_text(without_default(change["join"]))
    can_keep = change["action"] == "updated"
    for stake in change.get("accumulated", ()):
        if change["keeps"] and stake["fits"]:
            yield f"[green]{escape_text(_amount(stake))} would be kept[/]"
        else:
            saved = " (--keep would keep it)" if can_keep and stake["fits"] else ""
            yield f"[red]{escape_text(_amount(stake))} would be lost[/]{saved}"
    for name, one, many in () if change.get("keeps") else _COUNTS:
        count = change.get(name, 0)
        if count:
            verb = "would end" if name == "waitingJobs" else "would be lost"
            saved = f" (--keep would keep {'it' if count == 1 else 'them'})" if can_keep else ""
            yield f"[red]{count} {one if count == 1 else many} {verb}[/]{saved}"
    if change["action"] == "deleted" and change.get("waitingJobs"):
        yield (
            "a new name is a new schedule: to let the jobs of this one run, keep it in the app until it has none, "
            f"after `streamsched schedule pause {escape_text(short_name(change['id']))} --drain`"
        )


def _amount(stake: Mapping[str, Any]) -> str:
    return f"{stake['have']} of {stake['need']} of '{without_default(stake['leaf'])}'"
