"""`ports.access.tokens.TokenStore` on PostgreSQL."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.grant import grant_to_json, grants_from_json
from streamsched.domain.access.token import SECRET_BYTES, TokenRecord
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.ports.access.tokens import FoundToken
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("access/tokens")


class PostgresTokenStore:
    """See `ports.access.tokens.TokenStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find(self, token: str) -> FoundToken | None:
        with translated():
            row = await self._pool.fetchrow(_SQL["find"], token)
        return None if row is None else FoundToken(_record(row), row["digest"])

    async def create(self, record: TokenRecord, digest: bytes) -> None:
        grants = [grant_to_json(grant) for grant in record.grants]
        values = (record.id, record.name, digest, grants, record.created_at, record.created_by, record.expires_at)
        with translated():
            try:
                await self._pool.execute(_SQL["create"], *values)
            except asyncpg.UniqueViolationError as exc:
                raise ConflictError(f"a token named '{record.name}' exists; revoke it, or choose another name") from exc

    async def page(self, *, after: tuple[str, str] = ("", ""), limit: int) -> Sequence[TokenRecord]:
        with translated():
            return [_record(row) for row in await self._pool.fetch(_SQL["page"], *after, limit)]

    async def revoke(self, token: str, *, by: str, now: datetime) -> TokenRecord:
        with translated():
            row = await self._pool.fetchrow(_SQL["revoke"], token, by, now)
        if row is None:
            raise NotFoundError("token", token)
        return _record(row)

    async def used(self, token: str, *, now: datetime) -> None:
        with translated():
            await self._pool.execute(_SQL["used"], token, now)

    async def key(self) -> bytes:
        with translated():
            found = await self._pool.fetchval(_SQL["key"])
            if found is None:
                await self._pool.execute(_SQL["offer_key"], secrets.token_bytes(SECRET_BYTES))
                found = await self._pool.fetchval(_SQL["key"])
        return found

    async def active_run(self, run: str) -> bool:
        with translated():
            return await self._pool.fetchval(_SQL["active_run"], run)


def _record(row: Any) -> TokenRecord:
    return TokenRecord(
        id=row["id"],
        name=row["name"],
        grants=grants_from_json(row["grants"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        revoked_by=row["revoked_by"],
        used_at=row["used_at"],
    )
