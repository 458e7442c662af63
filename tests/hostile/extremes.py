"""Extreme JSON values: hostile, most of them valid, each with a short description."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON text that is written as it is, though `json` could not produce it."""

    text: str


@dataclass(frozen=True, slots=True)
class Extreme:
    """A value and its description for people."""

    name: str
    value: Any


def _nested(depth: int, opened: str = "[", closed: str = "]") -> Raw:
    return Raw(opened * depth + closed * depth)


NUMBERS: Final = tuple(
    Extreme(name, value)
    for name, value in (
        ("0", 0),
        ("-1", -1),
        ("-2^63", -(2**63)),
        ("2^31-1", 2**31 - 1),
        ("2^31", 2**31),
        ("2^32", 2**32),
        ("2^53+1", 2**53 + 1),
        ("10^15", 10**15),
        ("2^63-1", 2**63 - 1),
        ("2^63", 2**63),
        ("2^64", 2**64),
        ("10^30", 10**30),
        ("10^4000", Raw("1" + "0" * 4000)),
        ("0.5", 0.5),
        ("1e308", 1e308),
        ("1e999", Raw("1e999")),
        ("-0.0", Raw("-0.0")),
        ("NaN", Raw("NaN")),
        ("Infinity", Raw("Infinity")),
    )
)

DURATIONS: Final = tuple(
    Extreme(repr(text[:40]), text)
    for text in (
        "0s",
        "1us",
        "1ms",
        "-1s",
        "4000000d",
        "999999999d",
        "1000000000000s",
        "9999999999999999999999h",
        "106751991d",
        "1d" * 3000,
        "1e9s",
        "0.0000001s",
        "١s",
        "P1D",
        "1 month",
    )
)

INSTANTS: Final = tuple(
    Extreme(repr(text[:40]), text)
    for text in (
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59-23:59",
        "1970-01-01T00:00:00Z",
        "2099-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "infinity",
        "now",
        "1699999999",
        "2026-01-01T00:00:00+99:99",
        "2026-01-01T24:00:00Z",
        "2016-12-31T23:59:60Z",
    )
)

TEXTS: Final = tuple(
    Extreme(name, value)
    for name, value in (
        ("empty", ""),
        ("blank", " "),
        ("10,000 letters", "x" * 10_000),
        ("200,000 letters", "y" * 200_000),
        ("NUL", "a\0b"),
        ("control characters", "a\r\n\t\x1b[31m\x07b"),
        ("right to left", "\u202eevil\u2066"),
        ("half a surrogate", Raw('"\\ud800"')),
        ("surrogates the wrong way round", Raw('"\\udc00\\ud800"')),
        ("a noncharacter", "\uffff\ufdd0"),
        ("emoji", "👩‍👩‍👧‍👦🏳️‍🌈"),
        ("combining marks", "e" + "\u0301" * 3000),
        ("dots", ".."),
        ("many dots", "a." * 500 + "a"),
        ("a path", "../../../../etc/passwd"),
        ("SQL", "'; DROP TABLE jobs; --"),
        ("HTML", "<script>alert(1)</script>"),
        ("printf", "%s%n%x %(a)s"),
        ("braces", "{trigger.job}{0}{__class__}{{}}"),
        ("an open brace", "{"),
        ("a shell", "$(reboot) `id` ; id | id"),
        ("a wildcard", "%_*?[!-]"),
        ("stars", "*a" * 60 + "b"),
        ("a separator", "a:b/c.d=e#f"),
        ("a reserved key", "\\u0000position"),
        ("a zone", "Europe/../UTC"),
        ("a cron of much", ",".join("0-59" for _ in range(2000)) + " * * * *"),
        ("a cron that never comes", "0 0 30 2 *"),
        ("a cron each second", "* * * * * *"),
        ("@every 1ns", "@every 1ns"),
        ("@every 9999999h", "@every 9999999h"),
        ("a URL to a file", "file:///etc/passwd"),
        ("a URL of nowhere", "http://[::1"),
        ("a URL with a line", "http://a/\r\nX: y"),
        ("a fullwidth digit", "７"),
        ("Turkish i", "İi̇"),
    )
)

SHAPES: Final = tuple(
    Extreme(name, value)
    for name, value in (
        ("null", None),
        ("true", True),
        ("an empty list", []),
        ("an empty object", {}),
        ("lists 90 deep", _nested(90)),
        ("lists 1,000 deep", _nested(1_000)),
        ("lists 10,000 deep", _nested(10_000)),
        ("objects 10,000 deep", Raw('{"a":' * 10_000 + "1" + "}" * 10_000)),
        ("2,000 numbers", list(range(2_000))),
        ("100,000 nulls", Raw("[" + ",".join(["null"] * 100_000) + "]")),
        ("2,000 fields", {f"c{n}": f"v{n}" for n in range(2_000)}),
        ("a field named ''", {"": ""}),
        ("a field twice", Raw('{"a": 1, "a": 2}')),
        ("not JSON", Raw("}{")),
    )
)

EVERYTHING: Final = (*NUMBERS, *DURATIONS, *INSTANTS, *TEXTS, *SHAPES)


def fitting(value: object) -> tuple[Extreme, ...]:
    """Extremes that come closest to being taken in the place of a value."""
    match value:
        case bool():
            return SHAPES
        case int() | float():
            return NUMBERS
        case str() if len(value) > 18 and "T" in value[:12]:
            return INSTANTS
        case str() if value[:1].isdigit() and value[-1:] in "smhd":
            return DURATIONS
        case str():
            return TEXTS
        case _:
            return SHAPES


def drawn(value: object, rng: random.Random) -> Extreme:
    """An extreme for the place of a value: most often of its own kind."""
    return rng.choice(fitting(value) if rng.random() < 0.8 else EVERYTHING)


Path = tuple[str | int, ...]


def places(document: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all values below the document, its inner nodes too."""
    inner: Iterator[tuple[str | int, Any]]
    match document:
        case dict():
            inner = iter(document.items())
        case list():
            inner = iter(enumerate(document))
        case _:
            return
    for name, value in inner:
        yield (*path, name)
        yield from places(value, (*path, name))


def changed(document: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy of the document with another value at a path."""
    if not path:
        return change(document)
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = changed(document[path[0]], path[1:], change)
    return copy


def worsened(document: Any, rng: random.Random, *, times: int = 1, keep: tuple[str, ...] = ()) -> tuple[Any, str]:
    """The document with extremes in some of its places (never in fields named in `keep`), and what they are."""
    said = []
    for _ in range(times):
        some = [path for path in places(document) if not (set(path) & set(keep))]
        path = rng.choice(some)
        extreme: Extreme | None = None

        def worse(value: Any) -> Any:
            nonlocal extreme
            extreme = drawn(value, rng)
            return extreme.value

        document = changed(document, path, worse)
        assert extreme is not None
        said.append(f"{'.'.join(map(str, path))} = {extreme.name}")
    return document, ", ".join(said)


def written(value: Any) -> bytes:
    """JSON of a value, with what is `Raw` in it as it is."""
    raws: list[str] = []

    def mark(item: object) -> str:
        assert isinstance(item, Raw)
        raws.append(item.text)
        return f"\x01raw{len(raws) - 1}\x01"

    text = json.dumps(value, default=mark, separators=(",", ":"))
    for number, raw in enumerate(raws):
        text = text.replace(f'"\\u0001raw{number}\\u0001"', raw)
    return text.encode("utf-8", "surrogatepass")
