"""Grants and tokens, and grants between namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.access.grant import Caller, Grant
from streamsched.domain.access.token import TokenRecord, TokenRequest

GRANT: Final = JsonShape(
    Grant,
    shared=True,
    sometimes=("names", "shell", "masters"),
    about={
        "namespace": About("sales", pattern=r"^([a-zA-Z0-9_]+|\*)$"),
        "names": About("raw_*", minLength=1, maxLength=255),
        "shell": About(False),
        "masters": About("spark://host:*", minLength=1, maxLength=255),
    },
    text="A role in a namespace, or in all.",
)
_GRANTS: Final[Mapping[str, About]] = {"grants": About(shape=GRANT)}
CALLER: Final = JsonShape(Caller, about={**_GRANTS, "name": About("token:ci")})
NEW_TOKEN: Final = JsonShape(
    TokenRequest,
    "NewToken",
    about={
        "name": About("ci", minLength=1, maxLength=255),
        "grants": About(shape=GRANT, minItems=1, maxItems=100),
        "expires_in": About("30d"),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenState:
    """A token without its secret.

    Attributes:
        used_at: the last use, up to a minute late.
        invalid: why it is not accepted; None when it is.
        text: the token; in the answer that made it, and in no other.
    """

    id: Annotated[str, About("0a1b2c3d4e5f")]
    name: Annotated[str, About("ci")]
    grants: Annotated[Sequence[Grant], About(shape=GRANT)]
    created_at: datetime
    created_by: Annotated[str, About("token:admin")]
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    used_at: datetime | None
    invalid: str | None
    text: Annotated[str, About("sst_…", "The token. It is shown only here.")]


TOKEN: Final = JsonShape(TokenState, "Token", outside=("text",))
CREATED_TOKEN: Final = JsonShape(TokenState, "CreatedToken")


def token_view(record: TokenRecord, now: datetime) -> dict[str, Any]:
    """A token without its secret."""
    return TOKEN.answer_of(record, **_fields_at(record, now))


def created_token_view(record: TokenRecord, text: str, now: datetime) -> dict[str, Any]:
    """A token with its text."""
    return CREATED_TOKEN.answer_of(record, text=text, **_fields_at(record, now))


def _fields_at(record: TokenRecord, now: datetime) -> Mapping[str, str | None]:
    return {"revoked_by": record.revoked_by or None, "invalid": record.refusal_reason(now) or None}
