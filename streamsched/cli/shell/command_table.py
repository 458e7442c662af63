"""The commands by name. A command's module is imported when the command is used: starting the command line imports no
other.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, Final

import typer

from streamsched.cli.shell.coercion import quicken
from streamsched.cli.shell.watching import add_watch

_ROOM: Final = "streamsched.cli.commands"

#: Name of each command, in the order of the help, with its module and function. A function whose name ends with
#: `commands` returns a group.
COMMANDS: Final = {
    "dev": ("dev", "dev"),
    "deploy": ("deploy", "deploy"),
    "diff": ("deploy", "diff"),
    "plan": ("apps.applying", "plan"),
    "apply": ("apps.applying", "apply"),
    "validate": ("apps.validation", "validate"),
    "namespace": ("namespace", "commands"),
    "app": ("app", "commands"),
    "schedule": ("schedule", "commands"),
    "event": ("event", "commands"),
    "program": ("program", "commands"),
    "job": ("job", "commands"),
    "run": ("run", "commands"),
    "backfill": ("backfill", "commands"),
    "graph": ("graphs.graph", "commands"),
    "import": ("moving.importing", "commands"),
    "group": ("limits.group", "commands"),
    "pool": ("limits.pool", "commands"),
    "cluster": ("limits.cluster", "commands"),
    "queue": ("tasks.queue", "commands"),
    "task": ("tasks.task", "commands"),
    "lane": ("tasks.lane", "commands"),
    "dapr": ("dapr.dapr", "commands"),
    "watch": ("datasets.watch", "commands"),
    "bookmark": ("datasets.bookmark", "commands"),
    "cron": ("cron", "commands"),
    "dlq": ("dlq", "commands"),
    "token": ("access.token", "token_commands"),
    "audit": ("access.token", "audit_commands"),
    "worker": ("roles", "worker"),
    "launcher": ("roles", "launcher"),
    "api": ("roles", "api"),
    "migrate": ("roles", "migrate"),
    "doctor": ("admin", "doctor"),
    "resync": ("admin", "resync"),
    "reshard": ("admin", "reshard"),
    "topics": ("admin", "topics_commands"),
    "state": ("admin", "state_commands"),
    "top": ("top", "top"),
    "context": ("contexts.context", "commands"),
}


class CommandTable(MutableMapping[str, Any]):
    """The commands by name, in the order of `COMMANDS`. Each is imported and built when it is first read."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = quicken(_built(name, *COMMANDS[name]))
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _built(name: str, module: str, function: str) -> Any:
    found = getattr(import_module(f"{_ROOM}.{module}"), function)
    if function.endswith("commands"):
        group = typer.main.get_group(add_watch(found()))
        group.name = name
        return group
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name)(found)
    return typer.main.get_command(app)
