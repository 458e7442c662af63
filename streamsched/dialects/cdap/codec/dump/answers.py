"""What CDAP answers at its addresses, wherever the answers are: at a server, or saved in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json

#: Bytes of one answer.
LARGEST: Final = 64 * 1024 * 1024


class CdapAnswers(Protocol):
    """Answers to GET below `/v3`."""

    def read(self, *path: str, most: int | None = None) -> Any:
        """The JSON at a path, whose segments are names as they are; None: there is none.

        Args:
            most: elements that are wanted of a list, the newest; None: all.

        Raises:
            DecodeError: it is no JSON, too large, or refused; has the path.
            UnavailableError: the server does not answer.
        """
        ...


def answer_path(*path: str) -> str:
    """The path for messages."""
    return "/".join(each if each.isprintable() and "/" not in each else repr(each) for each in path)[:300]


def list_of(answer: Json, path: str) -> list[Json]:
    """The elements of an answer that is a list; none where there is none.

    Raises:
        InvalidError: it is something else.
    """
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise InvalidError(path, "is not a list")
    return answer


def object_of(answer: Json, path: str) -> dict[str, Json]:
    """An answer that is an object; an empty one where there is none.

    Raises:
        InvalidError: it is something else.
    """
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise InvalidError(path, "is not an object")
    return answer


def text_of(found: Mapping[str, Json], name: str) -> str:
    """A member that is a text; empty otherwise."""
    value = found.get(name)
    return value if isinstance(value, str) else ""
