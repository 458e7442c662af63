"""How the HTTP interface of another product differs from ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.domain.errors import StreamschedError


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDialect:
    """What a route says of itself whose shapes are those of another product.

    Attributes:
        name: with which the ids of its operations begin.
        prefix: with which all its paths begin, and no others.
        message: the text of an error; errors are that text alone. None: problems.
        refusal: the schema of its errors and one with a text, where its routes answer them as JSON; whatever is away is
            500 there. None: they do not.
        reads_forms: bodies may be sent as forms, which is the default of some clients; they are read as JSON.
        reads_lines: bodies may be lines of JSON.
        middleware: of the application.
    """

    name: str
    prefix: str = "/"
    message: Callable[[StreamschedError], str] | None = None
    refusal: tuple[NamedSchema, Callable[[str], Any]] | None = None
    reads_forms: bool = False
    reads_lines: bool = False
    middleware: Callable[[ASGIApp], ASGIApp] | None = None
