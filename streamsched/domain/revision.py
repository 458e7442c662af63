"""Revisions: a short text for each state of a thing, by which a change is refused when the thing has changed since its
caller read it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from streamsched.domain.errors import RevisionChangedError

#: Characters of a digest. Two states of one thing have the same one once in 2^64.
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Expected:
    """The revisions of which the thing must have one; without any it must only exist."""

    revisions: frozenset[str] = frozenset()

    def check(self, what: str, current: str | None) -> None:
        """`what`: the thing, for people. `current`: None when it does not exist.

        Raises:
            RevisionChangedError: it has another revision, or does not exist.
        """
        if current is None or (self.revisions and current not in self.revisions):
            raise RevisionChangedError(what, current)


def digest(value: object) -> str:
    """The revision of a thing that has no number: the same for equal JSON values, whatever the order of members."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
