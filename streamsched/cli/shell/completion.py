"""Names for the completion of a shell: of schedules, programs, apps, jobs, runs and contexts.

A completion answers within a second and prints nothing else: without a server, or without permission, there are no
names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import typer

from streamsched.cli.naming import short_name
from streamsched.domain.errors import StreamschedError
from streamsched.domain.names import DEFAULT_NAMESPACE

#: Seconds for each of at most two requests.
_PATIENCE: Final = 0.5
#: Most names of one request.
_MOST: Final = 100


class Completion(NamedTuple):
    """A word that a shell completes to, with a sentence that some shells show beside it."""

    value: str
    help: str
    type: str = "plain"


def schedule_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of schedules that begin with the text."""
    return _quietly(lambda: _complete_ordered(ctx, "/v1/schedules", "schedules", incomplete))


def program_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of programs that begin with the text."""
    return _quietly(lambda: _complete_ordered(ctx, "/v1/programs", "programs", incomplete))


def app_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of apps that begin with the text."""
    return _quietly(lambda: _complete_ordered(ctx, "/v1/apps", "apps", incomplete))


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of recent jobs that begin with the text, newest first."""
    return _quietly(lambda: _matches(_ids(ctx, "/v1/jobs", "jobs"), incomplete))


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of recent runs that begin with the text, newest first."""
    return _quietly(lambda: _matches(_ids(ctx, "/v1/runs", "runs"), incomplete))


def context_names(incomplete: str) -> list[str]:
    """Names of contexts that begin with the text."""
    from streamsched.cli.connection.contexts import read_contexts

    return _quietly(lambda: _matches(read_contexts(os.environ).known, incomplete))


def _quietly(names: Callable[[], list[str]]) -> list[str]:
    """The names; none if they cannot be read."""
    try:
        return names()
    except (StreamschedError, OSError, ValueError, LookupError, TypeError):
        return []


def _matches(ids: Iterator[str] | Mapping[str, Any], incomplete: str) -> list[str]:
    return [name for name in map(short_name, ids) if name.startswith(incomplete)] or [
        each for each in ids if each.startswith(incomplete)
    ]


def _complete_ordered(ctx: typer.Context, path: str, member: str, incomplete: str) -> list[str]:
    """Ids of a list that is ordered by id. The text begins an id, or one of the default namespace without it."""
    found: list[str] = []
    for prefix in dict.fromkeys((f"{DEFAULT_NAMESPACE}.{incomplete}", incomplete)):
        found += [each for each in _ids(ctx, path, member, after=_cursor_before(prefix)) if each.startswith(prefix)]
    return list(
        dict.fromkeys(name for each in found for name in (short_name(each), each) if name.startswith(incomplete))
    )


def _cursor_before(prefix: str) -> str:
    """A cursor before all ids with the prefix and after most others."""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "\x7e" if prefix else ""


def _ids(ctx: typer.Context, path: str, member: str, *, after: str = "") -> Iterator[str]:
    """Raises:
    UnavailableError: no response in time.
    """
    from streamsched.cli.connection.server_url import found_url, requested_url
    from streamsched.cli.server import ask

    context = ctx.find_root().params.get("context") or ""
    url = ctx.params.get("url") or requested_url(context, os.environ) or found_url(os.environ)
    query = {"limit": _MOST, "after": after}
    for each in ask("GET", path, url=url, params=query, timeout=_PATIENCE)[member]:
        yield str(each["id"])
