"""Groups of commands whose help shows the whole first sentence of each command."""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperGroup

#: Longer than any first sentence, so that none is cut.
_LONGEST: Final = 1000


class CommandGroup(TyperGroup):
    """A group that wraps the summaries of its commands. Typer cuts them at the width of the terminal."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the name and the first sentence of each command, in the order of registration."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, each.get_short_help_str(_LONGEST)) for name, each in commands if each and not each.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def new_group(description: str) -> typer.Typer:
    """An empty group of commands; without arguments it prints its help."""
    return typer.Typer(help=description, cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)
