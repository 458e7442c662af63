"""The commands by name. A command's module is imported when the command is used: starting the command line imports no
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer

from streamsched.cli.shell.coercion import quicken
from streamsched.cli.shell.watching import add_watch
from streamsched.parts import parts

_ROOM: Final = "streamsched.cli.commands"


class Source(NamedTuple):
    """Where a command is defined, and the first sentence of its help. A function named `…commands` returns a group."""

    module: str
    function: str
    summary: str
    package: str = _ROOM


#: The core's commands by name, in the order of the help. The summaries stand here so that the help of the whole command
#: line and the completion of names import no command; a test compares them with the commands.
_COMMANDS: Final = {
    "dev": Source(
        "dev",
        "dev",
        "Runs a complete scheduler on this machine: PostgreSQL, log, worker, launcher and API.",
    ),
    "data": Source(
        "installation.data",
        "commands",
        "Backs up, restores and moves the data folder of a stopped `streamsched dev`.",
    ),
    "deploy": Source(
        "deploy",
        "deploy",
        "Deploys an app: creates, updates and deletes its programs and schedules to match the definition.",
    ),
    "diff": Source("deploy", "diff", "Shows what `deploy` would change, field by field, and what would be lost."),
    "plan": Source(
        "apps.applying",
        "plan",
        "Shows what `apply` would create, change and delete, field by field, and what would be lost.",
    ),
    "apply": Source(
        "apps.applying",
        "apply",
        "Creates and updates the programs and schedules of app files, after showing the plan.",
    ),
    "validate": Source(
        "apps.validation",
        "validate",
        "Checks files of apps without a server: every field, every trigger, and that each time trigger can tick.",
    ),
    "namespace": Source("namespace", "commands", "Sets what holds for all programs of a namespace."),
    "app": Source(
        "app",
        "commands",
        "Lists, shows and deletes apps: programs and schedules that are deployed together.",
    ),
    "schedule": Source("schedule", "commands", "Lists, explains and changes schedules."),
    "expectation": Source(
        "schedules.expectation", "commands", "Lists and shows expectations: what must be there by which time."
    ),
    "event": Source("event", "commands", "Emits events and shows what schedules made of them."),
    "program": Source("program", "commands", "Lists, starts and deletes programs."),
    "profile": Source(
        "programs.profile", "commands", "Sets Spark profiles: settings in one place, which Spark programs name."
    ),
    "bundle": Source(
        "programs.bundle", "commands", "Shows the bundles of programs, which `streamsched deploy --bundle` stores."
    ),
    "job": Source("job", "commands", "Lists, explains and controls jobs: satisfied schedules, waiting or launched."),
    "run": Source("run", "commands", "Starts, repeats, lists, shows and kills runs: executions of programs."),
    "backfill": Source(
        "backfill",
        "commands",
        "Starts, lists, shows, pauses, resumes and cancels backfills: many jobs of one schedule over a span.",
    ),
    "graph": Source(
        "graphs.graph",
        "commands",
        "Submits, explains and cancels nodes: tasks of a graph at their job ids.",
    ),
    "import": Source(
        "moving.importing",
        "commands",
        "Imports definitions of other systems, with a report of what carries over.",
    ),
    "group": Source(
        "limits.group",
        "commands",
        "Lists groups and sets their limits: slots that runs of any program share.",
    ),
    "pool": Source(
        "limits.pool",
        "commands",
        "Lists pools and sets their sizes and priorities: slots that runs share, with a queue.",
    ),
    "grant": Source(
        "access.grant",
        "commands",
        "Lets schedules of another namespace wait for events, or use groups and pools, of one.",
    ),
    "quota": Source("limits.quota", "commands", "Sets quotas: limits of a namespace, and shows what is in use."),
    "cluster": Source("limits.cluster", "commands", "Lists clusters and the load that jobs wait for."),
    "queue": Source(
        "tasks.queue",
        "commands",
        "Manages queues of tasks: where tasks go, how they are retried, how many at a time.",
    ),
    "task": Source("tasks.task", "commands", "Adds tasks to queues, and shows, ends and moves them."),
    "lane": Source("tasks.lane", "commands", "Explains lanes, in which the tasks of a queue go one after another."),
    "watch": Source(
        "datasets.watch",
        "commands",
        "Watches a table, a folder or a topic: each commit of new data, and all growth, becomes one event.",
    ),
    "dataset": Source(
        "datasets.dataset",
        "commands",
        "Shows datasets: what came, what waits for them, and what is missing.",
    ),
    "bookmark": Source(
        "datasets.bookmark",
        "commands",
        "Shows and deletes bookmarks: how far a reader has read a dataset.",
    ),
    "cron": Source("cron", "commands", "Shows what a cron expression means."),
    "dlq": Source("dlq", "commands", "Lists, replays and archives dead letters: records that could not be processed."),
    "webhook": Source(
        "webhook",
        "commands",
        "Manages webhooks: targets that are sent changes of jobs and runs, signed.",
    ),
    "token": Source("access.token", "token_commands", "Creates, lists and revokes tokens of the API."),
    "audit": Source(
        "access.token",
        "audit_commands",
        "Shows who requested which change, and checks that nothing was altered.",
    ),
    "worker": Source(
        "roles",
        "worker",
        "Runs a worker: owns shards of the log and folds their events into satisfactions.",
    ),
    "launcher": Source(
        "roles",
        "launcher",
        "Runs a launcher: checks constraints, starts and monitors runs, fires timers, and relays changes to the log.",
    ),
    "api": Source("roles", "api", "Runs the HTTP API."),
    "migrate": Source(
        "roles",
        "migrate",
        "Migrates the database at STREAMSCHED_DATABASE_URL to the schema of this version.",
    ),
    "doctor": Source("admin", "doctor", "Checks the installation: log, shards, schema, clocks, permissions and Java."),
    "clock": Source(
        "installation.clock",
        "commands",
        "Shows the time of the installation, and confirms it after the database's clock has jumped.",
    ),
    "resync": Source("admin", "resync", "Compares the schedules in the shards with those in PostgreSQL."),
    "reshard": Source("admin", "reshard", "Changes the number of shards of the installation."),
    "topics": Source("admin", "topics_commands", "Checks and creates the topics of the log."),
    "state": Source("admin", "state_commands", "Shows, exports and imports the shards' state of schedules."),
    "top": Source(
        "top",
        "top",
        "Shows the state of each shard and the queues of relay, timers and launchers, updated until Ctrl-C.",
    ),
    "context": Source("context", "commands", "Names servers, and chooses the one that the commands use."),
}


@cache
def commands() -> Mapping[str, Source]:
    """The commands by name, in the order of the help: the core's, and after the ones that they name those of
    dialects.
    """
    found = list(_COMMANDS.items())
    for part in parts():
        for name, (place, summary, after) in part.commands.items():
            module, _, function = place.partition(":")
            index = next(index for index, (known, _) in enumerate(found) if known == after)
            found.insert(index + 1, (name, Source(module, function, summary, part.package)))
    return dict(found)


class CommandTable(MutableMapping[str, Any]):
    """The commands by name, in the order of `commands`. Each is imported and built when it is first read."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = quicken(_build(name, commands()[name]))
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(commands())

    def __len__(self) -> int:
        return len(commands())


def _build(name: str, source: Source) -> Any:
    found = getattr(import_module(f"{source.package}.{source.module}"), source.function)
    if source.function.endswith("commands"):
        group = typer.main.get_group(add_watch(found()))
        group.name = name
        return group
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name)(found)
    return typer.main.get_command(app)
