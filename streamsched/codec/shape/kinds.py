"""What the types of members mean in JSON: how each is read, written and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from streamsched.codec.json.reading import (
    find_choice,
    format_value,
    instant,
    prefix_errors,
    read_boolean,
    read_choice,
    read_integer,
    read_list,
    read_object,
    read_text,
)
from streamsched.codec.json.secret import read_secret
from streamsched.codec.shape import schemas
from streamsched.codec.shape.about import NOTHING, About
from streamsched.codec.shape.kind import Kind, Read, Write
from streamsched.codec.shape.schemas import Schema
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.limits import MOST, check_count
from streamsched.domain.names import AppRef, DatasetRef, EventName, ExpectationRef, ProgramRef, ScheduleRef
from streamsched.domain.programs.secret import Secret
from streamsched.domain.time.duration import duration_text, parse_duration


def kind_of(annotation: Any, about: About = NOTHING) -> Kind:
    """The kind of a type. An `About` in the annotation counts before the one that is given. A type that nothing reads
    is any value, if its schema is given.

    Raises:
        TypeError: nothing reads the type.
    """
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
        about = next((mark for mark in marks if isinstance(mark, About)), about)
    found = _kind(annotation, about)
    if about.schema is None:
        return found
    return found._replace(body=about.schema, answer=about.schema)


class _Several:
    """Stands for the types of a union that `About.shape` knows."""


def plain(value: Any) -> Any:
    """A value of the domain as an answer has it: names and durations as texts, sets as sorted lists."""
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, _NAMES):
        return str(value)
    if type(value) in _COLLECTIONS:
        found = [plain(each) for each in value]
        return sorted(found) if type(value) in _UNORDERED else found
    return value


def _text_of(value: Any) -> str:
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def _kind(annotation: Any, about: About) -> Kind:
    if about.spread and about.shape is not None:
        return about.shape.kind
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        kinds = [each for each in arguments if each is not NoneType]
        found = kind_of(kinds[0] if len(kinds) == 1 else _Several, about)
        return _nullable(found) if NoneType in arguments else found
    if origin in (tuple, frozenset, Sequence):
        return _list(origin, arguments[0], about)
    if origin is Mapping:
        return _object(arguments[1], about)
    if about.shape is not None:
        return about.shape.kind
    if annotation in _PARSED:
        return _text_value(*_PARSED[annotation], about)
    if annotation in _PLAIN:
        return _PLAIN[annotation](about)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _choice(annotation, about)
    if about.schema is not None:
        return _any_value(about)
    raise TypeError(f"nothing reads {annotation}")


def _nullable(found: Kind) -> Kind:
    def or_null(read: Read) -> Read:
        def read_or_null(value: Json, path: str) -> Any:
            return None if value is None else read(value, path)

        return read_or_null

    return found._replace(read=or_null(found.read), take=or_null(found.take), nullable=True)


def _text(about: About) -> Kind:
    example = "a text" if about.example is None else about.example
    body = schemas.text(example, about=about.text, **about.rules)
    return Kind(read_text, read_text, None, body, schemas.any_text(example, about.text), loose=_text_of)


def _integer(about: About) -> Kind:
    least, most = 0 if about.least is None else about.least, MOST if about.most is None else about.most
    bounded = about.least is not None or about.most is not None

    def read(value: Json, path: str) -> int:
        found = read_integer(value, path)
        if bounded:
            check_count(found, path, least=least, most=most)
        return found

    example = 1 if about.example is None else about.example
    schema = {**schemas.integer(example, least=least, most=most, about=about.text), **about.rules}
    return Kind(read, read, None, schema, schema)


def _number(about: About) -> Kind:
    schema = {**schemas.number(0.5 if about.example is None else about.example, about.text), **about.rules}
    return Kind(_read_number, _read_number, None, schema, schema)


def _boolean(about: About) -> Kind:
    schema = schemas.boolean(about.example is not False, about.text)
    return Kind(read_boolean, read_boolean, None, schema, schema)


def _instant(about: About) -> Kind:
    schema = schemas.instant(about.example or "2026-03-01T06:00:00Z", about.text)
    return Kind(instant, instant, None, schema, schema)


def _any_value(about: About) -> Kind:
    schema = schemas.anything(about.example, about.text)
    return Kind(_read_any_value, _read_any_value, None, schema, schema, loose=plain)


def _text_value(parse: Callable[[str], Any], write: Write, body: Schema, about: About) -> Kind:
    """A type that is a text in JSON."""

    def read(value: Json, path: str) -> Any:
        with prefix_errors(path):
            return parse(read_text(value, "$"))

    examples = body["examples"] if about.example is None else [about.example]
    described = {"description": about.text} if about.text else {}
    sent = {**body, **about.rules, "examples": examples, **described}
    answer = sent if write is duration_text else schemas.any_text(examples[0], about.text)
    return Kind(read, read, write, sent, answer)


def _choice(options: type[StrEnum], about: About) -> Kind:
    def read(value: Json, path: str) -> StrEnum:
        return read_choice(value, path, options)

    def take(value: Json, path: str) -> str:
        text = read_text(value, path)
        return find_choice(text, options) or text

    schema = schemas.choice(options, about.text)
    if about.example is not None:
        schema["examples"] = [about.example]
    return Kind(read, take, str, schema, schema)


def _secret(about: About) -> Kind:
    """Where a secret is: `{"secret": "env:NAME"}`."""
    schema = schemas.record({"secret": schemas.text("env:HOOK_KEY")}, about=about.text or "A secret by reference.")
    return Kind(read_secret, read_secret, _write_secret, schema, schema)


def _list(made: Any, item: Any, about: About) -> Kind:
    own = ("minItems", "maxItems", "uniqueItems")
    rules = {name: value for name, value in about.rules.items() if name in own}
    others = {name: value for name, value in about.rules.items() if name not in own}
    each = kind_of(item, About(about.example, least=about.least, most=about.most, shape=about.shape, **others))
    ordered = made is not frozenset
    make: Callable[[list[Any]], Sequence[Any] | frozenset[Any]] = tuple[Any, ...] if ordered else frozenset[Any]
    write = each.write_or_null

    def reads(one: Read) -> Read:
        def read(value: Json, path: str) -> Any:
            return make([one(element, f"{path}[{index}]") for index, element in enumerate(read_list(value, path))])

        return read

    def write_all(values: Any) -> list[Any]:
        assert write is not None
        found = [write(value) for value in values]
        return found if ordered else sorted(found)

    body = schemas.array(each.body_or_null, about.text, **rules)
    written = plain if write is None else write_all
    answer = schemas.array(each.answer_or_null, about.text, **rules)
    return Kind(reads(each.read), reads(each.take), written, body, answer)


def _object(value: Any, about: About) -> Kind:
    """An object from names to values."""
    each = kind_of(value, About(about.example, shape=about.shape))
    key = about.key or "day"
    write = each.write_or_null

    def reads(one: Read) -> Read:
        def read(found: Json, path: str) -> Mapping[str, Any]:
            return {name: one(item, member_path(path, name)) for name, item in read_object(found, path).items()}

        return read

    def write_all(values: Mapping[str, Any]) -> dict[str, Any]:
        assert write is not None
        return {name: write(item) for name, item in values.items()}

    body = schemas.object_by_name(each.body_or_null, key, about.text, **about.rules)
    answer = (
        body if about.shape is None else schemas.object_by_name(each.answer_or_null, key, about.text, **about.rules)
    )
    return Kind(reads(each.read), reads(each.take), dict if write is None else write_all, body, answer)


def _read_number(value: Json, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise DecodeError(path, f"must be a number but is {format_value(value)}")


def _read_any_value(value: Json, _: str) -> Json:
    return value


def _write_secret(secret: Secret) -> dict[str, str]:
    return {"secret": secret.reference}


_UNORDERED: Final = frozenset({frozenset})
_COLLECTIONS: Final = _UNORDERED | {list, tuple}
_NAMES: Final = (AppRef, DatasetRef, EventName, ExpectationRef, ProgramRef, ScheduleRef)
_PLAIN: Final[Mapping[Any, Callable[[About], Kind]]] = MappingProxyType(
    {
        str: _text,
        int: _integer,
        float: _number,
        bool: _boolean,
        datetime: _instant,
        Secret: _secret,
        Any: _any_value,
    }
)
_PARSED: Final[Mapping[Any, tuple[Callable[[str], Any], Write, Schema]]] = MappingProxyType(
    {
        timedelta: (parse_duration, duration_text, schemas.duration()),
        EventName: (EventName.parse, str, schemas.text("default.approved")),
        DatasetRef: (DatasetRef.parse, str, schemas.text("default.flights")),
        ExpectationRef: (ExpectationRef.parse, str, schemas.text("default.shop.flights")),
        ScheduleRef: (ScheduleRef.parse, str, schemas.text("default.flights.weekly")),
        ProgramRef: (ProgramRef.parse, str, schemas.text("default.flights.join")),
    }
)
