"""Shell commands with placeholders. A placeholder becomes a reference to the variable of the run's argument, quoted for
its place, so that the shell never reads a value as syntax.

>>> fill_for_shell("echo {date} '{date}' {{}}")
'echo "$STREAMSCHED_ARG_DATE" \'\'"$STREAMSCHED_ARG_DATE"\'\' {}'
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge

_INVALID_IN_VARIABLE: Final = re.compile(r"[^A-Z0-9_]")
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z][A-Za-z0-9_.-]*)\}|\\.|['\"{}]", re.DOTALL)


def variable_of(argument: str) -> str:
    """The environment variable in which a program has an argument of its run."""
    return f"STREAMSCHED_ARG_{_INVALID_IN_VARIABLE.sub('_', argument.upper())}"


def fill_for_shell(command: str, known: Collection[str] | None = None, path: str = "$.command") -> str:
    """The command with variables for its placeholders, to be executed with the run's arguments in its environment.
    `{{` and `}}` are braces, as in Python's `format`. Comments, here-documents and code in a second shell
    (`bash -c "…"`, `ssh`) are not read: a placeholder in the last two is syntax of that shell.

    Args:
        known: names of the arguments that runs will have; None: any.
        path: of the command, for errors.

    Raises:
        InvalidDefinitionError: a placeholder is not known, or there is a single brace (`${NAME}` is `${{NAME}}`).
    """
    quote = ""

    def write_argument(found: re.Match[str]) -> str:
        nonlocal quote
        token = found[0]
        if found[1] is not None:
            return _reference(found[1], quote, known, path)
        if token in ("{{", "}}"):
            return token[0]
        if token in ("{", "}"):
            raise InvalidDefinitionError(
                path, f"has a single '{token}' at character {found.start() + 1}; write '{token * 2}' for a brace"
            )
        if token[0] == "\\":
            return token if quote != "'" else f"\\{_TOKEN.sub(write_argument, token[1:])}"
        if not quote:
            quote = token
        elif quote == token:
            quote = ""
        return token

    return _TOKEN.sub(write_argument, command)


def _reference(name: str, quote: str, known: Collection[str] | None, path: str) -> str:
    if known is not None and name not in known:
        names = ", ".join(sorted(known))
        raise InvalidDefinitionError(
            path, f"names {{{abridge(name)[1:-1]}}}, which is none of: {names}; a brace is written twice"
        )
    match quote:
        case '"':
            return f"${{{variable_of(name)}}}"
        case "'":
            return f"'\"${variable_of(name)}\"'"
        case _:
            return f'"${variable_of(name)}"'
