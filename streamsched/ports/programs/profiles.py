"""Profiles of Spark programs, of a namespace or of the installation (namespace `*`). Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.spark_profile import SparkProfile
from streamsched.domain.revision import Expected


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """A stored profile.

    Attributes:
        shell: whether who set it has the permission `shell`; of the installation's, always.
        reason: of the last change.
        revision: of its settings.
        users: programs that name it and get it, at most 100.
    """

    namespace: str
    profile: SparkProfile
    shell: bool
    reason: str
    changed_at: datetime
    revision: str
    users: Sequence[ProgramRef] = ()


class ProfileReader(Protocol):
    """What the start of a run and a deployment need."""

    async def effective(self, namespace: str, name: str) -> ProfileRecord | None:
        """The profile that programs of the namespace get by this name, without users: the namespace's own, or else the
        installation's; None without either.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


class ProfileStore(ProfileReader, Protocol):
    """Administration. Every call is one transaction."""

    async def list(self, namespace: str) -> Sequence[ProfileRecord]:
        """The profiles of a namespace and those of the installation, by name, without users."""
        ...

    async def get(self, namespace: str, name: str) -> ProfileRecord:
        """Raises:
        NotFoundError: the namespace itself has no such profile.
        """
        ...

    async def set(
        self,
        namespace: str,
        profile: SparkProfile,
        reason: str,
        *,
        now: datetime,
        expected: Expected | None = None,
        shell: bool,
    ) -> ProfileRecord:
        """Stores or replaces the profile. Runs that start afterwards have its settings. Idempotent.

        Raises:
            RevisionChangedError: the profile has no expected revision; nothing changed.
            ConflictError: the namespace has as many profiles as it may have.
        """
        ...

    async def delete(
        self, namespace: str, name: str, *, force: bool, reason: str, now: datetime, expected: Expected | None = None
    ) -> ProfileRecord:
        """Deletes the profile and returns what it was.

        Raises:
            NotFoundError: the namespace itself has no such profile.
            RevisionChangedError: it has no expected revision; nothing changed.
            ConflictError: programs would be without a profile of this name, and not `force`; the message names them.
        """
        ...
