"""A request to the API as a value. Pure, and quick to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no problem."""

    data: Any
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall(Generic[T]):
    """A request.

    Attributes:
        read: makes the result of the answer.
        repeatable: a second one changes nothing that the first did not, so it may be repeated when no answer came.
    """

    method: str
    path: str
    read: Callable[[Reply], T]
    params: Sequence[tuple[str, str]] = ()
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the request for those after them; None at the end."""

    items: Sequence[T]
    following: ApiCall[Page[T]] | None


def query(**given: str | float | Sequence[str] | None) -> Sequence[tuple[str, str]]:
    """Parameters as they are sent: booleans as JSON writes them, each of several values, none for None."""
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        if isinstance(value, bool):
            found.append((name, str(value).lower()))
        elif isinstance(value, str | int | float):
            found.append((name, str(value)))
        else:
            found += [(name, each) for each in value or ()]
    return found


def api_path(*parts: str) -> str:
    """The path of a resource from its parts, which may have any characters."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)
