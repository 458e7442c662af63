"""XML as elements with their lines. A document type, and so every entity of its own, is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from streamsched.domain.errors import DecodeError

#: Bytes of a document, elements in it, and depth of an element.
LARGEST: Final = 16 * 1024 * 1024
MOST: Final = 200_000
DEEPEST: Final = 100


@dataclass
class Element:
    """An element. `tag` has no namespace; `text` is its own text, without that of its children."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list["Element"])
    text: str = ""

    @property
    def path(self) -> str:
        """The line, for people."""
        return f"line {self.line}"

    def all(self, tag: str) -> Iterator[Element]:
        """The children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def first_child(self, tag: str) -> Element | None:
        """The first child with this tag."""
        return next(self.all(tag), None)

    def value(self, tag: str) -> str:
        """The text of the first child with this tag, without space around it; empty when there is none."""
        found = self.first_child(tag)
        return "" if found is None else found.text.strip()


def parse(raw: bytes) -> Element:
    """The root element of a document.

    Raises:
        DecodeError: it is no XML, has a document type, or is too large or too deep.
    """
    if len(raw) > LARGEST:
        raise DecodeError("$", f"has {len(raw)} bytes, the most are {LARGEST}")
    reading = _Reading()
    try:
        reading.parser.Parse(raw, True)
    except expat.ExpatError as exc:
        raise DecodeError(f"line {exc.lineno}", f"is not valid XML: {expat.ErrorString(exc.code)}") from exc
    except (ValueError, LookupError) as exc:
        raise DecodeError("$", f"is not valid XML: {exc}") from exc
    if reading.root is None:
        raise DecodeError("$", "has no element")
    return reading.root


class _Reading:
    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.root: Element | None = None
        self._open: list[Element] = []
        self._elements = 0

    def _doctype(self, *_: object) -> None:
        raise DecodeError(f"line {self.parser.CurrentLineNumber}", "a document type is not read")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self._elements += 1
        if self._elements > MOST:
            raise DecodeError(f"line {line}", f"has more than {MOST} elements")
        if len(self._open) >= DEEPEST:
            raise DecodeError(f"line {line}", "is nested too deeply")
        made = Element(tag.rpartition(":")[2], attributes, line)
        if self._open:
            self._open[-1].children.append(made)
        elif self.root is None:
            self.root = made
        self._open.append(made)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if self._open:
            self._open[-1].text += text
