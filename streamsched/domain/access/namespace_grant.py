"""Grants between namespaces: what the owner of one lets the definitions of another refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import LONGEST_NAME
from streamsched.domain.names import check_namespace

#: Most grants that a namespace may give, and that it may have.
MOST_NAMESPACE_GRANTS: Final = 10_000
#: Most characters of a name: `app.program`.
LONGEST_GRANTED: Final = 2 * LONGEST_NAME + 1
LONGEST_REASON: Final = 1000
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.$*?-]+")


class SharedKind(StrEnum):
    """What a definition of another namespace may refer to: events of a dataset or stream, a custom event, ends of a
    program, slots of a group, places of a pool.
    """

    DATASET = "dataset"
    STREAM = "stream"
    EVENT = "event"
    PROGRAM = "program"
    GROUP = "group"
    POOL = "pool"


class GrantState(StrEnum):
    """PENDING: used since before grants existed; the owner has not decided. Nothing else makes a pending grant."""

    PENDING = "pending"
    GRANTED = "granted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceGrant:
    """What `owner` has decided about a use by `grantee`.

    Attributes:
        name: without the namespace; of a program, `app.program`; a pattern (`*`, `?`) for several.
        details: whether the ends of programs arrive with log, error, run and arguments.
        by: who decided.
        at: when (UTC); None before it is stored.

    Raises:
        InvalidError: a namespace or the name is none, or the namespaces are one.
    """

    owner: str
    kind: SharedKind
    name: str
    grantee: str
    state: GrantState
    details: bool = False
    reason: str = ""
    by: str = ""
    at: datetime | None = None

    def __post_init__(self) -> None:
        check_namespace(self.owner)
        check_namespace(self.grantee)
        if self.owner == self.grantee:
            raise InvalidError("$.grantee", "is the namespace itself, which needs no grant")
        if len(self.name) > LONGEST_GRANTED or not _PATTERN.fullmatch(self.name):
            form = f"a name without its namespace, or a pattern with * and ?, of at most {LONGEST_GRANTED} characters"
            raise InvalidError("$.name", f"must be {form}")
        if len(self.reason) > LONGEST_REASON or "\0" in self.reason:
            raise InvalidError("$.reason", f"must have at most {LONGEST_REASON} characters, and no NUL")

    def covers(self, kind: SharedKind, name: str) -> bool:
        """Whether it is about this."""
        return self.kind is kind and fnmatchcase(name, self.name)


def covering_grant(kind: SharedKind, name: str, grants: Iterable[NamespaceGrant]) -> NamespaceGrant | None:
    """The grant that decides: the one of exactly this name; else, of those whose pattern has it, a refusal before a
    grant with details, and this before others. None: none is about it.
    """
    about = [each for each in grants if each.covers(kind, name)]
    order = (GrantState.REFUSED, GrantState.GRANTED, GrantState.PENDING)
    return min(about, key=lambda each: (each.name != name, order.index(each.state), not each.details), default=None)
