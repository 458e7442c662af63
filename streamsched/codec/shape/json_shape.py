"""A shape: the JSON object of a frozen dataclass."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cached_property, reduce
from typing import Annotated, Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

from streamsched.codec.json.reading import prefix_errors, read_list, read_object, refuse_unknown
from streamsched.codec.shape import schemas
from streamsched.codec.shape.about import NOTHING, About
from streamsched.codec.shape.answer_writer import Member, make_writer
from streamsched.codec.shape.kind import Kind
from streamsched.codec.shape.kinds import kind_of
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import Schema
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json, member_path

T = TypeVar("T")

_WORD: Final = re.compile(r"_(\w)")


class JsonShape(Generic[T]):
    """The JSON object of a frozen dataclass or a NamedTuple: its members are the fields, in their order, in camel case.

    A member without a default is required. Of what is sent, a null is as if the member were not there, except that a
    required member which may be None must be there; unknown members are refused. An answer has all members, but those
    that it has `sometimes`: when they have not their default.
    """

    def __init__(
        self,
        made: type[T],
        name: str = "",
        *,
        outside: Sequence[str] = (),
        also: Sequence[str] = (),
        sometimes: Sequence[str] = (),
        shared: bool = False,
        named: bool = False,
        tag: str = "",
        about: Mapping[str, About] | None = None,
        text: str = "",
    ) -> None:
        """`name`: in the OpenAPI document; by default that of the dataclass. `outside`: fields that are no members,
        because the address of the request has them. `also`: properties that are members of an answer. `sometimes`:
        names of members. `shared`: other shapes refer to its schema, which is that of a body, by its name, and `named`:
        to that of an answer; otherwise they have it in them. `tag`: its member `type`, by which a `JsonUnion` knows it.
        `about`: of fields that do not say it themselves. `text`: the description.
        """
        self.name: Final = name or made.__name__
        self.made: Final = made
        self.tag: Final = tag
        self._outside = outside
        self._also = also
        self.sometimes: Final = sometimes
        self._shared = shared
        self._named = named
        self._about: Final = about or {}
        self._text = text
        self._writers: dict[object, Callable[..., dict[str, Any]]] = {dict: _keep}

    @cached_property
    def _members(self) -> Sequence[Member]:
        found: list[Member] = []
        for attribute, hint, required, default in (*_fields_of(self.made), *_properties_of(self.made, self._also)):
            if attribute not in self._outside:
                about = _about(hint, self._about.get(attribute, NOTHING))
                name = about.name or camel_case(attribute)
                kind, sometimes = kind_of(hint, about), name in self.sometimes
                found.append(Member(attribute, about, name, member_path("", name), kind, required, default, sometimes))
        return found

    @cached_property
    def _fields(self) -> Sequence[Member]:
        """The members that are no properties."""
        return [each for each in self._members if each.attribute not in self._also]

    @cached_property
    def _by_name(self) -> Mapping[str, Member]:
        return {each.name: each for each in self._members}

    @cached_property
    def _known(self) -> Sequence[str]:
        return [*(["type"] if self.tag else []), *self._by_name]

    @cached_property
    def _json_names(self) -> Mapping[str, str]:
        return {each.attribute: each.name for each in self._members if each.attribute != each.name}

    def read(self, value: Json, path: str = "$", **outside: Any) -> T:
        """The value of what was sent. `outside`: the fields that are no members.

        Raises:
            DecodeError: a member is missing, unknown, or of another kind; with its path.
            InvalidError: the value refuses a member; likewise.
        """
        given = read_object(value, path)
        found = self.read_fields(given, path)
        if len(given) > len(found):
            refuse_unknown(given, self._known, path)
        with prefix_errors(path, **self._json_names):
            return self.made(**outside, **found)

    def read_fields(self, given: Mapping[str, Json], path: str = "$") -> dict[str, Any]:
        """The fields of an object, which may have other members, by their attributes; those that are not given are
        missing.

        Raises:
            DecodeError: a member is missing, or of another kind; with its path.
        """
        found: dict[str, Any] = {}
        for each in self._fields:
            member = given.get(each.name)
            if member is not None:
                found[each.attribute] = each.kind.read(member, path + each.below)
            elif each.required and each.kind.nullable and each.name in given:
                found[each.attribute] = None
            elif each.required:
                raise DecodeError(path + each.below, "is missing")
        return found

    @property
    def names(self) -> Collection[str]:
        """The names of its members."""
        return self._by_name.keys()

    def read_list(self, value: Json, path: str = "$") -> tuple[T, ...]:
        """The values of a list of what was sent; raises as `read`."""
        return tuple(self.read(each, f"{path}[{index}]") for index, each in enumerate(read_list(value, path)))

    def take(self, value: Json, path: str = "$") -> T:
        """The value of an answer, perhaps of a later or earlier release: unknown members are passed over, and one with
        a default may be missing.

        Raises:
            DecodeError: a member is missing or of another kind; with its path.
        """
        given = read_object(value, path)
        found: dict[str, Any] = {}
        for each in self._fields:
            if each.about.spread:
                others = {name: member for name, member in given.items() if name not in self._by_name}
                found[each.attribute] = each.kind.take(others, path)
            elif each.name in given:
                found[each.attribute] = each.kind.take(given[each.name], path + each.below)
            elif each.required:
                raise DecodeError(path + each.below, "is missing")
        return self.made(**found)

    def write(self, source: object) -> dict[str, Any]:
        """The JSON of a value, or of what has its fields, as `answer_of` one source; what it has made stays as it is.
        Instants are as they were, and enums of another source.
        """
        write = self._writers.get(type(source))
        if write is None:
            write = self._writers[type(source)] = self._make_writer([source], ())
        return write(source)

    def answer_of(self, *sources: object, **own: Any) -> dict[str, Any]:
        """The JSON of an answer: fields that are not its `own` are those of the first source that has them. Names and
        durations of the domain become texts.

        Raises:
            TypeError: no source has a field without a default.
        """
        given = (*map(type, sources), *own)
        write = self._writers.get(given)
        if write is None:
            write = self._writers[given] = self._make_writer(sources, tuple(own))
        return write(*sources, **own)

    def _make_writer(self, sources: Sequence[object], own: Sequence[str]) -> Callable[..., dict[str, Any]]:
        return make_writer(self.made, self._members, sources, own, name=self.name, tag=self.tag)

    @property
    def kind(self) -> Kind:
        """As a member of another shape."""
        if self._shared or self._named:
            return Kind(self.read, self.take, self.write, schemas.ref(self.name), schemas.ref(self.name))
        return Kind(self.read, self.take, self.write, self.body_schema(), self.answer_schema())

    @property
    def parts(self) -> Sequence[NamedSchema]:
        """The schemas that its own name, with its own if it is shared."""
        if self._named:
            return [self.answer]
        return [self.body] if self._shared else self._parts()

    def _parts(self) -> Sequence[NamedSchema]:
        return [part for each in self._members if each.about.shape is not None for part in each.about.shape.parts]

    @cached_property
    def body(self) -> NamedSchema:
        """The schema of what is sent."""
        return NamedSchema(self.name, self.body_schema, self._parts)

    @cached_property
    def answer(self) -> NamedSchema:
        """The schema of an answer."""
        return NamedSchema(self.name, self.answer_schema, self._parts)

    def page(self, member: str, name: str = "") -> NamedSchema:
        """The schema of a page of answers in a member. `name`: by default its own and `Page`."""
        return NamedSchema(name or f"{self.name}Page", schemas.page(member, schemas.ref(self.name)), [self.answer])

    def whole_list(self, member: str, name: str = "") -> NamedSchema:
        """The schema of a list of answers that has all, in a member. `name`: by default its own and `List`."""
        schema = schemas.answer({member: schemas.array(schemas.ref(self.name))})
        return NamedSchema(name or f"{self.name}List", schema, [self.answer])

    def with_members(self, name: str, **others: Schema) -> NamedSchema:
        """The schema of an answer that has other members besides."""
        return NamedSchema(name, lambda: schemas.extend(self.answer_schema(), schemas.answer(others)), self._parts)

    def body_with(self, **others: tuple[Any, About]) -> NamedSchema:
        """The schema of what is sent with other members that may be left out, each by its type."""
        more = {name: kind_of(kind, about).body for name, (kind, about) in others.items()}
        schema = schemas.record({}, more)
        return NamedSchema(self.name, lambda: schemas.extend(self.body_schema(), schema), self._parts)

    def change_schema(self, name: str, **others: Schema) -> NamedSchema:
        """The schema of a change: each member that is given is set, and null sets it to its default. `others`: members
        besides.
        """
        return NamedSchema(
            name, lambda: schemas.record({}, {**{each.name: each.kind.body for each in self._members}, **others})
        )

    def body_schema(self) -> Schema:
        required = {each.name: each.kind.body_or_null for each in self._members if each.required}
        optional = {each.name: each.kind.body for each in self._members if not each.required}
        return schemas.record({**self._type, **required}, optional, self._text)

    @property
    def _type(self) -> Mapping[str, Schema]:
        return {"type": schemas.constant(self.tag)} if self.tag else {}

    def answer_schema(self) -> Schema:
        own = [each for each in self._members if not each.about.spread]
        always = {each.name: each.kind.answer_or_null for each in own if not each.sometimes}
        sometimes = {
            each.name: each.kind.answer_or_null if each.required or each.default is not None else each.kind.answer
            for each in own
            if each.sometimes
        }
        spread = [each.kind.answer for each in self._members if each.about.spread]
        return reduce(schemas.spread, spread, schemas.answer({**self._type, **always}, sometimes, self._text))


def camel_case(name: str) -> str:
    """The name of an attribute in JSON.

    >>> camel_case("created_at")
    'createdAt'
    """
    return _WORD.sub(lambda found: found[1].upper(), name)


def _keep(written: dict[str, Any]) -> dict[str, Any]:
    return written


def _fields_of(made: Any) -> Iterator[tuple[str, Any, bool, Any]]:
    """The name, type, whether it is required, and default of each field."""
    hints = get_type_hints(made, include_extras=True)
    defaults: Mapping[str, Any] | None = getattr(made, "_field_defaults", None)
    if defaults is not None:
        yield from ((name, hint, name not in defaults, defaults.get(name)) for name, hint in hints.items())
        return
    for field in fields(made):
        if field.init:
            required = field.default is MISSING and field.default_factory is MISSING
            yield field.name, hints[field.name], required, None if field.default is MISSING else field.default


def _properties_of(made: type, names: Sequence[str]) -> Iterator[tuple[str, Any, bool, Any]]:
    for name in names:
        yield name, get_type_hints(getattr(made, name).fget, include_extras=True)["return"], True, None


def _about(annotation: Any, given: About) -> About:
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, About)), given)
