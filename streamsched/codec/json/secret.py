"""Secrets by reference as JSON: `{"secret": "env:NAME"}` where a text may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streamsched.codec.json.reading import Fields
from streamsched.domain.json_value import Json
from streamsched.domain.programs.secret import Secret


class PlainAndSecret(NamedTuple):
    """The values of an object that are texts, and those that are secrets."""

    plain: dict[str, str]
    secret: dict[str, Secret]

    def to_json(self) -> dict[str, str | dict[str, str]]:
        """The object again."""
        return with_secrets(self.plain, self.secret)


def with_secrets(plain: Mapping[str, str], secrets: Mapping[str, Secret]) -> dict[str, str | dict[str, str]]:
    """The object of texts and references."""
    return {**plain, **{name: {"secret": secret.reference} for name, secret in secrets.items()}}


def read_secret(value: Json, path: str) -> Secret:
    """A reference.

    Raises:
        DecodeError, InvalidDefinitionError: it is none; with its path.
    """
    reference = Fields(value, path)
    secret = Secret.parse(reference.text("secret"), reference.path_of("secret"))
    reference.check_all_read()
    return secret


def plain_and_secret(fields: Fields, name: str) -> PlainAndSecret:
    """An object whose values are texts or references; empty when the field is absent.

    Raises:
        DecodeError, InvalidDefinitionError: a value is neither; the path is that of the value.
    """
    inner = fields.optional_object(name)
    found = PlainAndSecret({}, {})
    for each in [] if inner is None else inner.names():
        assert inner is not None
        if isinstance(inner.optional_value(each), Mapping):
            found.secret[each] = read_secret(inner.required_value(each), inner.path_of(each))
        else:
            found.plain[each] = inner.text(each)
    return found


def templates(fields: Fields, name: str) -> dict[str, str]:
    """An object of texts with placeholders; a reference is its placeholder."""
    plain, secrets = plain_and_secret(fields, name)
    return {**plain, **{each: str(secret) for each, secret in secrets.items()}}


def optional_template(fields: Fields, name: str) -> str | None:
    """A text with placeholders; a reference is its placeholder; None when the field is absent."""
    if not isinstance(fields.optional_value(name), Mapping):
        return fields.optional_text(name)
    return str(read_secret(fields.required_value(name), fields.path_of(name)))
