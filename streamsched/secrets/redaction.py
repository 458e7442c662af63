"""Replaces the values of secrets in texts and in a stream of bytes, as they are and as they are usually written:
percent-encoded, in JSON, in base64, and each longer line of a value of several lines.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

#: What is written instead.
REDACTED: Final = "[secret]"
#: Least characters of a line of a value that is replaced by itself.
_LINE: Final = 8


class Redaction:
    """Replaces the values of some secrets; without values it changes nothing."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form.encode(errors="surrogateescape") for value in values for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None
        self._rest = b""

    @property
    def is_empty(self) -> bool:
        return self._pattern is None

    def text(self, text: str) -> str:
        """The text without the values."""
        if self._pattern is None:
            return text
        raw = self._pattern.sub(REDACTED.encode(), text.encode(errors="surrogateescape"))
        return raw.decode(errors="surrogateescape")

    def feed(self, chunk: bytes) -> bytes:
        """The next bytes of a stream without the values. An end that may be the beginning of a value is held back until
        the next call.
        """
        if self._pattern is None:
            return chunk
        held = self._rest + chunk
        done = max((found.end() for found in self._pattern.finditer(held)), default=0)
        kept = self._possible_length(held[done:])
        cut = len(held) - kept
        self._rest = held[cut:]
        return self._pattern.sub(REDACTED.encode(), held[:cut])

    def end(self) -> bytes:
        """What is held back, at the end of the stream."""
        rest, self._rest = self._rest, b""
        return rest

    def _possible_length(self, tail: bytes) -> int:
        """The length of the longest end of `tail` with which a value may begin."""
        return max((_overlap(tail, form) for form in self._forms), default=0)


def _overlap(tail: bytes, form: bytes) -> int:
    """The length of the longest end of `tail` that is the beginning of `form`, and shorter than it."""
    at = max(0, len(tail) - len(form) + 1)
    while (at := tail.find(form[:1], at)) >= 0:
        if form.startswith(tail[at:]):
            return len(tail) - at
        at += 1
    return 0


def _forms(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)
    yield base64.b64encode(value.encode(errors="surrogateescape")).decode()
    yield from (line for line in value.splitlines() if len(line) >= _LINE)
