"""API tokens and the installation's key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import asyncpg

from streamsched.domain.access.token import SECRET_BYTES, TokenRecord
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries
from streamsched.wire.access import GRANT

_SQL: Final = queries("access/tokens")


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A stored token with its secret's digest."""

    record: TokenRecord
    digest: bytes


class _Token(NamedTuple):
    id: str
    name: str
    grants: Any
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str
    used_at: datetime | None
    digest: bytes

    def record(self) -> TokenRecord:
        return TokenRecord(
            id=self.id,
            name=self.name,
            grants=GRANT.read_list(self.grants, "$.grants"),
            created_at=self.created_at,
            created_by=self.created_by,
            expires_at=self.expires_at,
            revoked_at=self.revoked_at,
            revoked_by=self.revoked_by,
            used_at=self.used_at,
        )


_FIND: Final = Select(_SQL["find"], _Token)
_PAGE: Final = Select(_SQL["page"], _Token)
_REVOKE: Final = Select(_SQL["revoke"], _Token)


class TokenStore:
    """Each method raises UnavailableError when PostgreSQL cannot be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, token: str) -> FoundToken | None:
        """The token of this id, also an expired or revoked one; None when there is none."""
        with translate_errors():
            row = await _FIND.fetchrow(self._pool, token)
        return None if row is None else FoundToken(row.record(), row.digest)

    async def create(self, record: TokenRecord, digest: bytes) -> None:
        """Stores a token.

        Raises:
            ConflictError: one with this name exists that is not revoked.
        """
        grants = [GRANT.write(grant) for grant in record.grants]
        values = (record.id, record.name, digest, grants, record.created_at, record.created_by, record.expires_at)
        with translate_errors():
            try:
                await self._pool.execute(_SQL["create"], *values)
            except asyncpg.UniqueViolationError as exc:
                raise ConflictError(f"a token named '{record.name}' exists; revoke it, or choose another name") from exc

    async def page(self, *, after: tuple[str, str] = ("", ""), limit: int) -> Sequence[TokenRecord]:
        """Tokens ordered by name and id, also those that ended, that follow `after` (name, id)."""
        with translate_errors():
            return [row.record() for row in await _PAGE.fetch(self._pool, *after, limit)]

    async def revoke(self, token: str, *, by: str, now: datetime) -> TokenRecord:
        """Revokes a token by id, or by the name of one that is not revoked. A repeat changes nothing.

        Raises:
            NotFoundError: there is no such token.
        """
        with translate_errors():
            row = await _REVOKE.fetchrow(self._pool, token, by, now)
        if row is None:
            raise NotFoundError("token", token)
        return row.record()

    async def record_use(self, token: str, *, now: datetime) -> None:
        """Records a use, at most once a minute."""
        with translate_errors():
            await self._pool.execute(_SQL["record_use"], token, now)

    async def key(self) -> bytes:
        """The installation's key, with which tokens of runs are signed. Creates it when there is none."""
        with translate_errors():
            found = await self._pool.fetchval(_SQL["key"])
            if found is None:
                await self._pool.execute(_SQL["offer_key"], secrets.token_bytes(SECRET_BYTES))
                found = await self._pool.fetchval(_SQL["key"])
        return found

    async def is_run_active(self, run: str) -> bool:
        """Whether the run exists and has not ended."""
        with translate_errors():
            return await fetch_value(self._pool, _SQL["is_run_active"], bool, run)
