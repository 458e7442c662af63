"""Names of things: namespace ⊃ app ⊃ program and schedule; datasets and streams live in a namespace.

Text forms are dotted (`default.flights-app.join`); they are the primary keys in PostgreSQL and the record keys in the
log. A namespace, app or program name has no dot, so parsing is unambiguous; a dataset may have dots after its
namespace. Character rules are those of CDAP, which has none for schedules: what a text form cannot hold of their names
is escaped in it, `default.sales.daily~2Ejoin`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import LONGEST_NAME

DEFAULT_NAMESPACE = "default"

_NAMESPACE = re.compile(r"[a-zA-Z0-9_]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_ODD = re.compile(r"[^a-zA-Z0-9_-]+")
_ESCAPE = re.compile(r"(?:~[0-9A-F]{2})+")
_DATASET = re.compile(r"[$.a-zA-Z0-9_-]+")
_QUEUE = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*")


def _check(pattern: re.Pattern[str], kind: str, text: str) -> None:
    if not pattern.fullmatch(text):
        raise InvalidError("$", f"{kind} name '{text}' must be one or more of {pattern.pattern[:-1]}")


def check_queue_name(name: object, path: str = "$") -> None:
    """Raises:
    InvalidError: it is not 1 to 255 letters, digits, `_`, `-` and `.`, beginning with one of the first three.
    """
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _QUEUE.fullmatch(name):
        raise InvalidError(
            path, f"must be 1 to {LONGEST_NAME} letters, digits, '_', '-' and '.', and not begin with '-' or '.'"
        )


def check_namespace(name: str) -> None:
    """Raises:
    InvalidError: it is no name of a namespace.
    """
    _check(_NAMESPACE, "namespace", name)


@dataclass(frozen=True, slots=True, order=True)
class AppRef:
    """An application: programs and schedules deployed together."""

    namespace: str
    app: str

    def __post_init__(self) -> None:
        _check(_NAMESPACE, "namespace", self.namespace)
        _check(_NAME, "app", self.app)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.app}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `namespace.app`.

        Raises:
            InvalidError: not two names joined by a dot.
        """
        parts = text.split(".")
        if len(parts) != 2:
            raise InvalidError("$", f"'{text}' is not of the form namespace.app")
        return cls(*parts)


@dataclass(frozen=True, slots=True, order=True)
class _InApp:
    kind: ClassVar[str]
    namespace: str
    app: str
    name: str

    def __post_init__(self) -> None:
        _check(_NAMESPACE, "namespace", self.namespace)
        _check(_NAME, "app", self.app)
        _check(_NAME, self.kind, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.app}.{self.name}"

    @property
    def owner(self) -> AppRef:
        """The application this belongs to."""
        return AppRef(self.namespace, self.app)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `namespace.app.name`.

        Raises:
            InvalidError: not three names joined by dots.
        """
        parts = text.split(".")
        if len(parts) != 3:
            raise InvalidError("$", f"'{text}' is not of the form namespace.app.name")
        namespace, app, name = parts
        return cls(namespace, app, cls._read_name(name))

    @staticmethod
    def _read_name(text: str) -> str:
        """The name in a text form."""
        return text


@dataclass(frozen=True, slots=True, order=True)
class ProgramRef(_InApp):
    """The name of a program."""

    kind: ClassVar = "program"


@dataclass(frozen=True, slots=True, order=True)
class ScheduleRef(_InApp):
    """The name of a schedule: any printable characters but `/`. In text forms each byte of others than letters, digits,
    `_` and `-` is `~` with two hexadecimal digits.
    """

    kind: ClassVar = "schedule"

    def __post_init__(self) -> None:
        AppRef(self.namespace, self.app)
        if _NAME.fullmatch(self.name):
            return
        if not self.name or not self.name.isprintable() or "/" in self.name or len(_escape(self.name)) > LONGEST_NAME:
            raise InvalidError(
                "$",
                f"schedule name '{self.name[:LONGEST_NAME]}' must be of printable characters but '/', in at most "
                f"{LONGEST_NAME} bytes, each of which counts three times where it is not of [a-zA-Z0-9_-]",
            )

    def __str__(self) -> str:
        return f"{self.namespace}.{self.app}.{_escape(self.name)}"

    @staticmethod
    def _read_name(text: str) -> str:
        if "~" not in text:
            return text
        plain = _ESCAPE.sub(lambda found: bytes.fromhex(found[0].replace("~", "")).decode(errors="replace"), text)
        if _escape(plain) != text:
            raise InvalidError("$", f"'{text}' is not how the name of a schedule is written in an id")
        return plain


def _escape(name: str) -> str:
    if name.isascii() and name.replace("-", "_").isidentifier():
        return name  # nearly all names, at a third of the cost
    return _ODD.sub(lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode(errors="replace")), name)


@dataclass(frozen=True, slots=True, order=True)
class ExpectationRef(_InApp):
    """The name of an expectation."""

    kind: ClassVar = "expectation"


@dataclass(frozen=True, slots=True, order=True)
class _InNamespace:
    namespace: str
    name: str

    def __post_init__(self) -> None:
        _check(_NAMESPACE, "namespace", self.namespace)
        _check(_DATASET, "dataset, stream or event", self.name)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @classmethod
    def parse(cls, text: str, namespace: str = DEFAULT_NAMESPACE) -> Self:
        """Reads `namespace.name`; a text without a dot is a name in `namespace`.

        Raises:
            InvalidError: a part holds characters it must not.
        """
        head, dot, tail = text.partition(".")
        return cls(head, tail) if dot else cls(namespace, head)


@dataclass(frozen=True, slots=True, order=True)
class DatasetRef(_InNamespace):
    """The name of a partitioned file set ("PFS")."""


@dataclass(frozen=True, slots=True, order=True)
class StreamRef(_InNamespace):
    """The name of a stream, which grows in bytes."""


@dataclass(frozen=True, slots=True, order=True)
class EventName(_InNamespace):
    """The name of a custom event."""
