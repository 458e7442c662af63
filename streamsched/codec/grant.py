"""Grants and tokens as JSON: `{"role", "namespace"?, "names"?, "shell"?, "masters"?}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.access.grant import EVERYWHERE, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import TokenRecord, TokenRequest
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json
from streamsched.domain.time.duration import parse_duration


def grant_to_json(grant: Grant) -> dict[str, Any]:
    """Without the members that have their default."""
    found: dict[str, Any] = {"role": grant.role.value, "namespace": grant.namespace}
    if grant.names:
        found["names"] = list(grant.names)
    if grant.shell:
        found["shell"] = True
    if grant.masters:
        found["masters"] = list(grant.masters)
    return found


def grants_from_json(values: Json, path: str = "$.grants") -> tuple[Grant, ...]:
    """Raises:
    DecodeError: a grant is not one; with the path.
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise DecodeError(path, "must be a list of grants")
    return tuple(_grant(value, f"{path}[{index}]") for index, value in enumerate(values))


def _grant(value: object, path: str) -> Grant:
    fields = Fields(value, path)
    role = fields.text("role")
    if role not in {each.value for each in AccessRole}:
        fields.fail("role", f"must be one of {', '.join(AccessRole)}")
    namespace = fields.optional_text("namespace") or EVERYWHERE
    names = _texts(fields, "names")
    shell = fields.optional_boolean("shell") or False
    masters = _texts(fields, "masters")
    fields.check_all_read()
    with prefix_errors(path):
        return Grant(role=AccessRole(role), namespace=namespace, names=names, shell=shell, masters=masters)


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    values = fields.optional_value(name) or []
    if not isinstance(values, list):
        fields.fail(name, "must be a list of texts")
    texts = tuple(value for value in values if isinstance(value, str))
    if len(texts) < len(values):
        fields.fail(name, "must be a list of texts")
    return texts


def token_request_from_json(body: object) -> TokenRequest:
    """Reads `{"name", "grants", "expiresIn"?}`.

    Raises:
        DecodeError, InvalidError: with the path of the field.
    """
    fields = Fields(body)
    name = fields.text("name")
    grants = grants_from_json(fields.required_value("grants"))
    span = fields.optional_text("expiresIn")
    fields.check_all_read()
    return TokenRequest(name, grants, None if span is None else parse_duration(span, "$.expiresIn"))


def token_to_json(record: TokenRecord, now: datetime) -> Mapping[str, Any]:
    """A token without its secret. `invalid`: why it is not accepted; null when it is."""
    return {
        "id": record.id,
        "name": record.name,
        "grants": [grant_to_json(grant) for grant in record.grants],
        "createdAt": record.created_at,
        "createdBy": record.created_by,
        "expiresAt": record.expires_at,
        "revokedAt": record.revoked_at,
        "revokedBy": record.revoked_by or None,
        "usedAt": record.used_at,
        "invalid": record.refusal_reason(now) or None,
    }
