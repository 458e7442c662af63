"""Templates of the key that is expected of a period: `column=text`, joined by `/` as in partition keys.

A text has placeholders for the period's start on the zone's clock: `{year}` 2026, `{month}` 2026-03, `{week}` 2026-W10,
`{day}` 2026-03-07, `{hour}` 2026-03-07T05, and `{start:FORMAT}` with the directives `%Y %m %d %H %j %G %V` of
`strftime`, after whose `%` a `-` leaves out leading zeros.

    >>> expected_key("year={start:%Y}/month={start:%-m}", datetime(2026, 3, 7))
    'month=3/year=2026'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge
from streamsched.domain.time.grain import Grain, period_name

#: The longest template, in characters, and the most columns of one.
LONGEST_TEMPLATE: Final = 500
MOST_COLUMNS: Final = 10
_DIRECTIVE: Final = re.compile(r"%(-?)([YmdHjGV])")
_FORMAT: Final = re.compile(r"(?:%-?[YmdHjGV]|[^%{}])+")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


def check_template(template: str, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is no template; an empty one is none, and valid.
    """
    if len(template) > LONGEST_TEMPLATE:
        raise InvalidDefinitionError(path, f"must have at most {LONGEST_TEMPLATE} characters")
    parts = template.split("/") if template else []
    columns = [part.partition("=")[0] for part in parts]
    if len(parts) > MOST_COLUMNS or len(set(columns)) < len(columns):
        raise InvalidDefinitionError(path, f"must name at most {MOST_COLUMNS} columns, each once")
    for part in parts:
        column, sign, text = part.partition("=")
        if not column or not sign or not text or not part.isprintable():
            raise InvalidDefinitionError(path, f"must be texts such as day={{day}}, but {abridge(part)} is none")
        if unknown := [name for name in _PLACEHOLDER.findall(text) if not _is_known(name)]:
            known = ", ".join(f"{{{name}}}" for name in reversed(Grain))
            raise InvalidDefinitionError(
                path, f"has {abridge(unknown[0])}, but the placeholders are {known} and {{start:%Y%m%d}}"
            )
        if set(_PLACEHOLDER.sub("", text)) & set("{}"):
            raise InvalidDefinitionError(path, f"has a brace without its other one: {abridge(part)}")


def columns_of(template: str) -> tuple[str, ...]:
    """The columns of a template, sorted; none of an empty one."""
    return tuple(sorted(part.partition("=")[0] for part in template.split("/"))) if template else ()


def expected_key(template: str, start: datetime) -> str:
    """The key (`key_of`) that a checked template expects of the period that begins at `start` (naive)."""
    parts = (part.partition("=") for part in template.split("/") if part)
    return key_of(
        {column: _PLACEHOLDER.sub(lambda found: _render_field(found[1], start), text) for column, _, text in parts}
    )


def key_of(values: Mapping[str, str]) -> str:
    """The text of these columns, by name, that is equal exactly for equal ones."""
    return "/".join(f"{column}={quote(values[column], safe=_PLAIN)}" for column in sorted(values))


#: Characters of values that a key has as they are.
_PLAIN: Final = " :-_.~,;@+|()[]"


def _is_known(name: str) -> bool:
    head, _, form = name.partition(":")
    return name in Grain.__members__.values() or (head == "start" and _FORMAT.fullmatch(form) is not None)


def _render_field(name: str, start: datetime) -> str:
    head, _, form = name.partition(":")
    return _format_start(form, start) if form else period_name(start, Grain(head))


@lru_cache(maxsize=1024)
def _format_start(form: str, start: datetime) -> str:
    def format_directive(found: re.Match[str]) -> str:
        text = _directive(found[2], start)
        return text.lstrip("0") or "0" if found[1] else text

    return _DIRECTIVE.sub(format_directive, form)


def _directive(letter: str, start: datetime) -> str:
    year, week, _ = start.isocalendar()
    match letter:
        case "Y":
            return f"{start.year:04}"
        case "G":
            return f"{year:04}"
        case "V":
            return f"{week:02}"
        case "j":
            return f"{start.timetuple().tm_yday:03}"
        case "m":
            return f"{start.month:02}"
        case "d":
            return f"{start.day:02}"
        case _:
            return f"{start.hour:02}"
