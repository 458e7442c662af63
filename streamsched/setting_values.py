"""How a setting is written in a variable, by its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time.duration import duration_text, parse_duration


def _duration(text: str) -> timedelta:
    try:
        return timedelta(0) if text == "0" else parse_duration(text)
    except InvalidDefinitionError as exc:
        raise ValueError(exc.reason) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def _switch(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"'{text}' is not `true` or `false`")
    return text.lower() == "true"


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "str": str,
    "int": _whole,
    "bool": _switch,
    "Path": Path,
    "timedelta": _duration,
}


def folder_of(text: str) -> Path | None:
    """The folder that an absolute path or a URL `file:///…` names; None when it is empty.

    Raises:
        InvalidDefinitionError: it is neither.
    """
    if not text:
        return None
    parts = urlsplit(text)
    path = Path(unquote(parts.path) if "://" in text else text)
    if "://" in text and (parts.scheme != "file" or parts.netloc not in ("", "localhost")):
        raise InvalidDefinitionError("$", f"must be a folder or file:///…, not '{text}'")
    if not path.is_absolute() or len(path.parts) < 2:
        raise InvalidDefinitionError("$", f"must be the absolute path of a folder, not '{text}'")
    return path


def read_value(kind: str, text: str) -> object:
    """The value of a setting of this type.

    Raises:
        ValueError: the text is none; the message says why.
    """
    return _READERS[kind](text)


def written_value(value: object) -> str:
    """What `read_value` reads as an equal value."""
    match value:
        case timedelta():
            return duration_text(value)
        case bool():
            return str(value).lower()
        case _:
            return str(value)
