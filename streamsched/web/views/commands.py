"""The command and the HTTP request that do the same as a button. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from streamsched.web.views.names import short_name


class SameAs(NamedTuple):
    """Lines for a terminal."""

    cli: str
    curl: str = ""


def command_line(*words: str) -> str:
    """A `streamsched` command; words are quoted for a shell."""
    return shlex.join(("streamsched", *words))


def curl_line(url: str, path: str, body: Any = None, *, method: str = "POST") -> str:
    """A request with the token of the environment."""
    line = f'curl -X {method} -H "Authorization: Bearer $STREAMSCHED_TOKEN"'
    if method == "GET":
        line = line.replace("-X GET ", "")
    else:
        line += f" -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body or {}))}"
    return f"{line} {shlex.quote(url + path)}"


def schedule_action(url: str, schedule: str, verb: str, words: Sequence[str] = (), body: Any = None) -> SameAs:
    """`streamsched schedule VERB NAME` and its request."""
    path = {"resume": "enable"}.get(verb, verb)
    return SameAs(
        command_line("schedule", "enable" if verb == "resume" else verb, short_name(schedule), *words),
        curl_line(url, f"/v1/schedules/{schedule}/{path}", body),
    )
