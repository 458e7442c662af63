"""`streamsched import`: definitions of other systems become files of apps, with a report; each dialect has its own."""

from __future__ import annotations

import typer

from streamsched.cli.commands.moving.imported_state import preferences, runs
from streamsched.cli.group import new_group
from streamsched.parts import parts


def commands() -> typer.Typer:
    """The commands of `streamsched import`."""
    app = new_group("Imports definitions of other systems, with a report of what carries over.")
    for part in parts():
        for place in part.imports:
            app.command()(part.load(place))
    app.command()(preferences)
    app.command()(runs)
    return app
