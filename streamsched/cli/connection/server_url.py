"""Which server a command uses. The first that is given:

1. `--url`
2. `--context`, or `STREAMSCHED_CONTEXT`
3. `STREAMSCHED_URL`
4. the `streamsched dev` of this folder or of its nearest parent
5. the current context (`streamsched context use`)
6. http://127.0.0.1:8765
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamsched.cli.connection.contexts import ServerContext, read_contexts
from streamsched.emit.destination import dev_folder, dev_url

DEFAULT_URL: Final = "http://127.0.0.1:8765"
CONTEXT: Final = "STREAMSCHED_CONTEXT"
_URL: Final = "STREAMSCHED_URL"


class ContextUrl(str):
    """The URL of a context. It is used in place of any other URL, and has the context with its token."""

    __slots__ = ("context",)

    def __new__(cls, context: ServerContext) -> ContextUrl:
        """The URL without a slash at its end."""
        made = super().__new__(cls, context.url.rstrip("/"))
        made.context = context
        return made

    context: ServerContext


def requested_url(context: str, environ: Mapping[str, str]) -> str:
    """The URL that a context of this name or the environment gives to a command without `--url`; empty: none does.

    Raises:
        NotFoundError: there is no such context.
        ConfigurationError: the file of contexts cannot be read.
    """
    if context:
        return ContextUrl(read_contexts(environ).find(context))
    return environ.get(_URL, "").rstrip("/")


def found_url(environ: Mapping[str, str], folder: Path | None = None) -> str:
    """The URL when none is requested: that of the `streamsched dev` of `folder`, of this folder or of its nearest
    parent, else that of the current context, else the default.

    Raises:
        ConfigurationError: the file of contexts cannot be read.
    """
    at = folder or dev_folder(environ)
    running = None if at is None else dev_url(at)
    if running is not None or folder is not None:
        return running or DEFAULT_URL
    contexts = read_contexts(environ)
    return ContextUrl(contexts.find(contexts.current)) if contexts.current else DEFAULT_URL


def token_of(url: str) -> str | None:
    """The token of the context with this URL; None for a URL that is not of a context."""
    return url.context.read_token(os.environ) if isinstance(url, ContextUrl) else None
