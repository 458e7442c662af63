"""`streamsched validate`: checks files of apps without a server."""

from __future__ import annotations

from typing import Any

import typer

from streamsched.cli.commands.apps.app_files import Targets, files_of
from streamsched.cli.connection.waiting import notice
from streamsched.cli.naming import field_path, short_name
from streamsched.cli.output import Format, FormatOption, console, count_text, print_structured
from streamsched.domain.errors import InvalidError, StreamschedError

#: Exit code: a file is invalid.
INVALID = 2


def validate(targets: Targets, *, output: FormatOption = Format.TABLE) -> None:
    """Checks files of apps without a server: every field, every trigger, and that each time trigger can tick.

    All files are checked, also after an invalid one. Not checked is what only a server knows: plug-ins, permissions,
    and programs of other apps. Python files are executed. Exit code 2: a file is invalid.
    """
    files = files_of(targets)
    with notice(f"checking {count_text(len(files), 'file')}"):
        found = [_check_file(file) for file in files]
    if not print_structured(found, output):
        out = console()
        for each in found:
            if each["valid"]:
                programs, schedules = count_text(each["programs"], "program"), count_text(each["schedules"], "schedule")
                out.print(f"valid    {each['name']}  {each['app']}: {programs}, {schedules}", markup=False)
            else:
                path = f" {each['path']}" if each["path"] else ""
                out.print(f"invalid  {each['name']}{path}: {each['reason']}", style="red", markup=False)
        wrong = sum(not each["valid"] for each in found)
        out.print(f"{len(found) - wrong} valid, {wrong} invalid")
    if not all(each["valid"] for each in found):
        raise typer.Exit(INVALID)


def _check_file(file: str) -> dict[str, Any]:
    """The result of one file."""
    from streamsched.catalog.deployment import deploy
    from streamsched.define.loading import load_app
    from streamsched.ports.clock import SystemClock
    from streamsched.store.catalog.records import AppRecord

    try:
        app = load_app(file)
        deploy(AppRecord(app.ref, {}, {}), app, update_schedules=True, now=SystemClock().now())
    except InvalidError as exc:
        where = exc.path.removeprefix(file).strip()
        return {"name": file, "valid": False, "path": field_path(where) if where else "", "reason": exc.reason}
    except StreamschedError as exc:
        return {"name": file, "valid": False, "path": "", "reason": str(exc)}
    counts = {"programs": len(app.programs), "schedules": len(app.schedules)}
    return {"name": file, "valid": True, "app": short_name(str(app.ref)), **counts}
