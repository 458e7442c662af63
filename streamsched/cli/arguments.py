"""Arguments of commands that are pairs of name and value."""

from __future__ import annotations

from streamsched.domain.errors import InvalidError


def pairs(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Parses `NAME=VALUE` arguments.

    Raises:
        InvalidError: an argument has no name or no `=`.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidError("NAME=VALUE", f"'{text}' is not of the form name=value")
        values[name] = value
    return values
