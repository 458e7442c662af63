"""Links between the pages of a list. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode


class PageLinks(NamedTuple):
    """Addresses; empty where there is no such page. `clear`: the list without filters, when it has some."""

    first: str
    following: str
    clear: str


def page_links(path: str, kept: Sequence[tuple[str, str]], *, after: str, following: str) -> PageLinks:
    """The links of a page of the list at `path` with these parameters, after the cursor `after`."""
    given = [(name, value) for name, value in kept if value]
    filtered = any(name != "namespace" for name, _ in given)
    return PageLinks(
        address(path, given) if after else "",
        address(path, [*given, ("after", following)]) if following else "",
        address(path, [pair for pair in given if pair[0] == "namespace"]) if filtered else "",
    )


def address(path: str, parameters: Sequence[tuple[str, str]]) -> str:
    """A path with those parameters that have a value."""
    parameters = [(name, value) for name, value in parameters if value]
    return f"{path}?{urlencode(parameters)}" if parameters else path
