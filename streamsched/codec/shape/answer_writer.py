"""Writes answers from the fields of values: the function is made once, for the classes of its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from streamsched.codec.shape.about import About
from streamsched.codec.shape.kind import Kind

#: Values that are their JSON.
_JSON: Final = frozenset({str, int, float, bool, NoneType, datetime, dict})


class Member(NamedTuple):
    """A member of an object.

    Attributes:
        below: what its path has after that of the object.
        sometimes: an answer has it only when it has not its default.
    """

    attribute: str
    about: About
    name: str
    below: str
    kind: Kind
    required: bool
    default: Any
    sometimes: bool


def make_writer(
    made: type, members: Sequence[Member], sources: Sequence[object], own: Sequence[str], *, name: str, tag: str
) -> Callable[..., dict[str, Any]]:
    """Makes a function of sources of these classes, and of the fields in `own` by name. It writes the fields that are
    not its own from the first source that has them. Enums of other sources than a value (`made`) stay as they are.

    Raises:
        TypeError: no source has a field without a default.
    """
    known: dict[str, Any] = {"JSON": _JSON}
    parts = [f'"type": {tag!r}'] if tag else []
    for number, each in enumerate(members):
        first, _, rest = (each.about.of or each.attribute).partition(".")
        place = next((at for at, source in enumerate(sources) if hasattr(source, first)), None)
        known[f"default{number}"] = each.default
        known[f"write{number}"], known[f"loose{number}"] = each.kind.write, each.kind.loose
        hint: Any = Any
        if each.attribute in own:
            value = each.attribute
        elif place is not None:
            value, hint = f"source{place}.{first}", _hint(type(sources[place]), first)
            if rest:
                value, hint = _below(value, rest, each.kind.nullable), _hint(type(sources[place]), each.about.of)
        elif each.required:
            raise TypeError(f"{name} needs {each.attribute}")
        elif each.sometimes:
            continue
        else:
            value = f"default{number}"
        is_value = place is not None and type(sources[place]) is made
        text = _text(each, number, value, hint, is_json=_is_json(hint, enums=not is_value))
        part = f"**{text}" if each.about.spread else f"{each.name!r}: {text}"
        parts.append(f"**({{}} if {value} == default{number} else {{{part}}})" if each.sometimes else part)
    arguments = ", ".join((*(f"source{at}" for at in range(len(sources))), *(["*", *own] if own else ())))
    exec(f"def write({arguments}): return {{{', '.join(parts)}}}", known)
    return known["write"]


def _text(member: Member, number: int, value: str, hint: Any, *, is_json: bool) -> str:
    """The expression of a member."""
    if member.about.blank:
        value = f"({value} or None)"
    kind = member.kind
    if kind.write is None or (kind.write is str and is_json):
        if kind.loose is None or is_json:
            return value
        return f"(_value if type(_value := {value}) in JSON else loose{number}(_value))"
    if is_json and get_origin(hint) in (tuple, list):
        return f"list({value})"
    if kind.write is dict:
        return f"(_value if type(_value := {value}) in JSON else dict(_value))"
    text = f"write{number}({value})"
    return f"(None if (_value := {value}) is None else write{number}(_value))" if kind.nullable else text


def _below(value: str, rest: str, nullable: bool) -> str:
    for each in rest.split("."):
        value = f"(None if (_holder := {value}) is None else _holder.{each})" if nullable else f"{value}.{each}"
    return value


def _hint(source: Any, name: str) -> Any:
    """The type of a field or property; Any where it cannot be told."""
    name, _, rest = name.partition(".")
    if rest:
        return _hint(_not_none(_hint(source, name)), rest)
    found = getattr(source, name, None)
    return _hints(found.fget).get("return", Any) if isinstance(found, property) else _hints(source).get(name, Any)


@cache
def _hints(source: Any) -> Mapping[str, Any]:
    """The types of a class or a function, resolved once: that takes a millisecond. Empty where they cannot be told."""
    try:
        return get_type_hints(source)
    except (NameError, TypeError):
        return {}


def _not_none(hint: Any) -> Any:
    return next((each for each in get_args(hint) if each is not NoneType), hint)


def _is_json(hint: Any, *, enums: bool) -> bool:
    """Whether values of a type are their JSON, or are when their elements are in a list."""
    if get_origin(hint) in (Union, UnionType):
        return all(_is_json(each, enums=enums) for each in get_args(hint))
    if get_origin(hint) in (tuple, list):
        return _is_json(get_args(hint)[0], enums=enums)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return enums
    return get_origin(hint) is dict or hint in _JSON
