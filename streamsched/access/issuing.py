"""Making tokens."""

from __future__ import annotations

import secrets

from streamsched.domain.access.token import (
    ID_BYTES,
    SECRET_BYTES,
    TokenRecord,
    TokenRequest,
    digest_of,
    expiry_of,
    secret_text,
    stored_token_text,
)
from streamsched.ports.clock import Clock
from streamsched.store.access.tokens import TokenStore


async def create_token(store: TokenStore, clock: Clock, request: TokenRequest, *, by: str) -> tuple[TokenRecord, str]:
    """Stores a new token. Returns it with its text, which cannot be read again.

    Raises:
        InvalidError: the name, the grants or the duration.
        ConflictError: a token of this name is in use.
    """
    now = clock.now()
    record = TokenRecord(
        id=secrets.token_hex(ID_BYTES),
        name=request.name,
        grants=request.grants,
        created_at=now,
        created_by=by,
        expires_at=expiry_of(now, request.expires_in),
    )
    secret = secret_text(secrets.token_bytes(SECRET_BYTES))
    await store.create(record, digest_of(secret))
    return record, stored_token_text(record.id, secret)
