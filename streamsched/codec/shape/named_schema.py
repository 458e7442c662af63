"""Schemas with the names they have in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from streamsched.codec.shape.schemas import Schema


class NamedSchema:
    """A schema that is written where it is used. It is made when it is asked for.
    `parts`: others that it names.
    """

    def __init__(
        self,
        name: str,
        schema: Schema | Callable[[], Schema],
        parts: Sequence[NamedSchema] | Callable[[], Sequence[NamedSchema]] = (),
    ) -> None:
        self.name = name
        self._schema = schema
        self._parts = parts

    @cached_property
    def schema(self) -> Schema:
        return self._schema() if callable(self._schema) else self._schema

    @property
    def all(self) -> Iterator[NamedSchema]:
        """Itself, and all that it names."""
        yield self
        for part in self._parts() if callable(self._parts) else self._parts:
            yield from part.all
