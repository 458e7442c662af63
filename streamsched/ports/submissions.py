"""Preferences: arguments that a person gives to every run of a namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PreferenceRecord:
    """The preferences of a namespace.

    Attributes:
        deployed: whether an app was ever deployed to the namespace; its name may be mistyped if not.
        reason: of the last change.
        changed_at: None of a namespace that never had preferences.
    """

    namespace: str
    deployed: bool
    arguments: Mapping[str, str]
    reason: str
    changed_at: datetime | None


class PreferenceStore(Protocol):
    """Preferences of namespaces (`domain.schedules.preferences`). A namespace need not have an app."""

    async def get(self, namespace: str) -> PreferenceRecord:
        """Empty when the namespace has none."""
        ...

    async def change(
        self, namespace: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]], reason: str, *, now: datetime
    ) -> PreferenceRecord:
        """Stores what `decide` makes of the present ones, under their lock, and writes which names changed to the
        history; `reason` says who and why. Equal ones change nothing. What `decide` raises is raised, and nothing
        changes. Jobs that become runs afterwards have them.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the change may be repeated.
        """
        ...
