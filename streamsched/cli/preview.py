"""What a change would do, for people: what would be lost first of all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from streamsched.cli.output import console, escaped

_SIGNS: Final = {"created": "[green]+[/]", "deleted": "[red]-[/]"}


def print_preview(preview: Mapping[str, Any]) -> None:
    """Each thing that would change, its fields, and what becomes of what it has accumulated."""
    out = console()
    if not preview["differs"]:
        out.print("nothing would change", style="dim")
        return
    for kind in ("programs", "schedules"):
        for each in preview[kind]:
            because = f": {escaped(each['reason'])}" if each["reason"] not in {"", "deployed"} else ""
            sign = _SIGNS.get(each["action"], "[yellow]~[/]")
            out.print(f"{sign} {kind[:-1]} [bold]{each['id']}[/] would be {each['action']}{because}")
            for line in _lines(each):
                out.print(f"    {line}")


def _lines(change: Mapping[str, Any]) -> Iterator[str]:
    worded = any(field["field"] == "when" for field in change.get("fields", ()))
    for field in change.get("fields", ()):
        if not (worded and field["field"] == "trigger"):
            yield f"{field['field']}: {escaped(_shown(field['before']))} → {escaped(_shown(field['after']))}"
    can_keep = change["action"] == "updated"
    for stake in change.get("accumulated", ()):
        amount = f"{stake['have']} of {stake['need']} of '{escaped(stake['leaf'])}'"
        if change["keeps"] and stake["fits"]:
            yield f"[green]{amount} would be kept[/]"
        else:
            saved = " (--keep would save it)" if can_keep and stake["fits"] else ""
            yield f"[red]{amount} would be lost[/]{saved}"
    waiting = change.get("waitingJobs", 0)
    if waiting and not change["keeps"]:
        saved = " (--keep would let them go on)" if can_keep else ""
        yield f"[red]{waiting} waiting job{'s' if waiting > 1 else ''} would end[/]{saved}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
