"""Members that are read and written by hand, as those with several spellings."""

from __future__ import annotations

from streamsched.codec.shape.kind import Kind, Read, Write
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import Schema


class ByHand:
    """`About(shape=ByHand(…))`: how a member is read, written and described."""

    parts: tuple[NamedSchema, ...] = ()

    def __init__(self, read: Read, write: Write, schema: Schema) -> None:
        self.kind = Kind(read, read, write, schema, schema)
