"""The store of API tokens and of the installation's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.access.token import TokenRecord


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A stored token with its secret's digest."""

    record: TokenRecord
    digest: bytes


class TokenStore(Protocol):
    """Stored tokens. Each method raises UnavailableError when the store cannot be reached."""

    async def find(self, token: str) -> FoundToken | None:
        """The token of this id, also an expired or revoked one; None when there is none."""
        ...

    async def create(self, record: TokenRecord, digest: bytes) -> None:
        """Stores a token.

        Raises:
            ConflictError: one with this name exists that is not revoked.
        """
        ...

    async def page(self, *, after: tuple[str, str] = ("", ""), limit: int) -> Sequence[TokenRecord]:
        """Tokens ordered by name and id, also those that ended, that follow `after` (name, id)."""
        ...

    async def revoke(self, token: str, *, by: str, now: datetime) -> TokenRecord:
        """Revokes a token by id, or by the name of one that is not revoked. A repeat changes nothing.

        Raises:
            NotFoundError: there is no such token.
        """
        ...

    async def used(self, token: str, *, now: datetime) -> None:
        """Records a use."""
        ...

    async def key(self) -> bytes:
        """The installation's key, with which tokens of runs are signed. Creates it when there is none."""
        ...

    async def active_run(self, run: str) -> bool:
        """Whether the run exists and has not ended."""
        ...
