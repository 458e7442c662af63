"""Members that are read and written by hand, as those with several spellings."""

from __future__ import annotations

from collections.abc import Sequence

from streamsched.codec.shape.kind import Kind, Read, Write
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import Schema
from streamsched.domain.json_value import Json


def keep_json(value: Json, _: str) -> Json:
    """The reader of what stays as it is."""
    return value


class ByHand:
    """`About(shape=ByHand(…))`: how a member is read, written and described; `parts`: schemas that its own names."""

    def __init__(self, read: Read, write: Write, schema: Schema, parts: Sequence[NamedSchema] = ()) -> None:
        self.kind = Kind(read, read, write, schema, schema)
        self.parts = parts
