"""A type in JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from streamsched.codec.shape import schemas
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import Schema
from streamsched.domain.json_value import Json

#: Makes the value of JSON at a path, or raises `InvalidError` with the path.
Read = Callable[[Json, str], Any]
#: Makes JSON of a value.
Write = Callable[[Any], object]


class Kind(NamedTuple):
    """How a type is read, written and described.

    Attributes:
        read: of what is sent: everything else is refused.
        take: of an answer, which a later release may have made: members and choices that are not known are passed over.
        write: None: the value is its JSON. It is not asked to write null.
        body, answer: the schema of what is sent, and of what is answered, when it is not null.
        nullable: null is a value of it.
        loose: makes JSON of a value of the domain that stands for a text, or for any value, where an answer is written.
    """

    read: Read
    take: Read
    write: Write | None
    body: Schema
    answer: Schema
    nullable: bool = False
    loose: Write | None = None

    @property
    def write_or_null(self) -> Write | None:
        write = self.write
        if write is None or not self.nullable:
            return write
        return lambda value: None if value is None else write(value)

    @property
    def body_or_null(self) -> Schema:
        return schemas.nullable(self.body) if self.nullable else self.body

    @property
    def answer_or_null(self) -> Schema:
        return schemas.nullable(self.answer) if self.nullable else self.answer


class HasKind(Protocol):
    """What says itself how it is read, written and described: a shape."""

    @property
    def kind(self) -> Kind: ...

    @property
    def parts(self) -> Sequence[NamedSchema]:
        """The schemas that its own name, with its own if others name it."""
        ...
