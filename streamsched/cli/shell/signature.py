"""Options that a function gets from a wrapper, as Typer reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def wrap_command(
    command: Callable[..., Any],
    run: Callable[..., Any],
    options: Mapping[str, tuple[Any, Any]],
    *,
    hidden: frozenset[str] = frozenset(),
) -> Callable[..., Any]:
    """`run` with the name, the help and the parameters of `command`, without the hidden ones, and with further options:
    name to annotation and default.
    """
    signature = inspect.signature(command, eval_str=True)
    kept = [each for each in signature.parameters.values() if each.name not in hidden]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    vars(run)["__signature__"] = signature.replace(parameters=[*kept, *added], return_annotation=None)
    run.__annotations__ = {each.name: each.annotation for each in (*kept, *added)}
    return run
