"""Objects of several shapes, told apart by their member `type`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from streamsched.codec.json.reading import format_value, read_object, read_text
from streamsched.codec.shape import schemas
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.kind import Kind
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json, member_path


class JsonUnion:
    """One of some shapes, each of which has a `tag`. Other shapes refer to its schema by its name."""

    def __init__(self, name: str, *variants: JsonShape[Any]) -> None:
        self.name: Final = name
        self._by_tag: Final[Mapping[str, JsonShape[Any]]] = {each.tag: each for each in variants}
        self._by_class: Final[Mapping[type, JsonShape[Any]]] = {each.made: each for each in variants}

    def read(self, value: Json, path: str = "$") -> Any:
        """The value of what was sent.

        Raises:
            DecodeError: no shape has its `type`; or as the shape.
            InvalidError: as the shape.
        """
        return self._shape(value, path).read(value, path)

    def take(self, value: Json, path: str = "$") -> Any:
        """The value of an answer; raises as the shape, and for another `type`."""
        return self._shape(value, path).take(value, path)

    def write(self, value: Any) -> dict[str, Any]:
        """The JSON of a value."""
        return self._by_class[type(value)].write(value)

    @cached_property
    def schema(self) -> NamedSchema:
        """The schema of what is sent, and of an answer."""
        return NamedSchema(self.name, lambda: schemas.one_of(*(each.body_schema() for each in self._by_tag.values())))

    @property
    def kind(self) -> Kind:
        """As a member of a shape."""
        named = schemas.ref(self.name)
        return Kind(self.read, self.take, self.write, named, named)

    @property
    def parts(self) -> Sequence[NamedSchema]:
        return [self.schema]

    def _shape(self, value: Json, path: str) -> JsonShape[Any]:
        named, where = read_object(value, path).get("type"), member_path(path, "type")
        if named is None:
            raise DecodeError(where, "is missing")
        found = self._by_tag.get(read_text(named, where))
        if found is None:
            raise DecodeError(where, f"must be one of {', '.join(self._by_tag)} but is {format_value(named)}")
        return found
