"""API tokens: their text, their digest and their state. The token of a run needs no row: a signature with the
installation's key proves it.

| text                    | what                                               |
|-------------------------|----------------------------------------------------|
| `sst_<id>_<secret>`     | a stored token; only the secret's digest is stored |
| `ssr_<run>_<signature>` | a run's token; valid while the run is active       |

A secret has 256 random bits, so its digest needs no salt and no slow hash.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from streamsched.domain.access.grant import MOST_GRANTS, Grant
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import LONGEST_NAME

#: Random bytes of a secret, of a token's id, and of the installation's key.
SECRET_BYTES: Final = 32
ID_BYTES: Final = 6
#: Longest text that is read as a token; a run's id is part of one.
LONGEST_TOKEN: Final = 2000

_STORED: Final = re.compile(r"sst_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_OF_RUN: Final = re.compile(r"ssr_(.+)_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class StoredTokenText:
    """A text of a stored token: its id, and its secret's digest."""

    id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class RunTokenText:
    """A text of a run's token. `run` is unproven until `is_signed_by`."""

    run: str
    signature: str

    def is_signed_by(self, key: bytes) -> bool:
        """Whether the text was made with this key, so that `run` can be believed. Takes the same time for any
        signature.
        """
        return hmac.compare_digest(self.signature.encode(), _signature(key, self.run).encode())


TokenText = StoredTokenText | RunTokenText


def read_token(text: str) -> TokenText | None:
    """The token that a text is; None when it has no such form."""
    if len(text) > LONGEST_TOKEN:
        return None
    if found := _STORED.fullmatch(text):
        return StoredTokenText(found[1], digest_of(found[2]))
    if found := _OF_RUN.fullmatch(text):
        return RunTokenText(found[1], found[2])
    return None


def stored_token_text(token: str, secret: str) -> str:
    """The text that the owner of a stored token gets, once."""
    return f"sst_{token}_{secret}"


def secret_text(random: bytes) -> str:
    """A secret from `SECRET_BYTES` random bytes."""
    return urlsafe_b64encode(random).rstrip(b"=").decode()


def digest_of(secret: str) -> bytes:
    """What is stored of a secret."""
    return sha256(secret.encode()).digest()


def run_token_text(run: str, key: bytes) -> str:
    """The token of a run."""
    return f"ssr_{run}_{_signature(key, run)}"


def _signature(key: bytes, run: str) -> str:
    return secret_text(hmac.digest(key, f"run\0{run}".encode(), "sha256"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A stored token without its secret.

    Attributes:
        id: 12 hexadecimal digits, part of the text.
        name: what the owner called it.
        expires_at: None: never.
        used_at: the last use, up to a minute late; None: never used.

    Raises:
        InvalidError: the name is empty, too long or not printable, or there are no or too many grants.
    """

    id: str
    name: str
    grants: tuple[Grant, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str = ""
    used_at: datetime | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= LONGEST_NAME or not self.name.isprintable():
            raise InvalidError("$.name", f"must have 1 to {LONGEST_NAME} printable characters")
        if not 0 < len(self.grants) <= MOST_GRANTS:
            raise InvalidError("$.grants", f"must have 1 to {MOST_GRANTS} grants")

    def refusal_reason(self, now: datetime) -> str:
        """Why the token is not accepted at that time; empty when it is."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return f"the token '{self.name}' was revoked at {self.revoked_at.isoformat(timespec='seconds')}"
        if self.expires_at is not None and self.expires_at <= now:
            return f"the token '{self.name}' expired at {self.expires_at.isoformat(timespec='seconds')}"
        return ""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token that is asked for. `expires_in`: None: it does not expire."""

    name: str
    grants: tuple[Grant, ...]
    expires_in: timedelta | None = None


def expiry_of(now: datetime, expires_in: timedelta | None) -> datetime | None:
    """When a token created now expires; None: never.

    Raises:
        InvalidError: the duration is not positive, or ends after year 9999.
    """
    if expires_in is None:
        return None
    if expires_in <= timedelta(0):
        raise InvalidError("$.expiresIn", "must be longer than 0")
    try:
        return now + expires_in
    except OverflowError:
        raise InvalidError("$.expiresIn", "ends after the year 9999") from None
