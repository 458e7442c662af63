"""Templates in program definitions, with placeholders for the arguments of a run.

>>> fill_template("--day {day}", {"day": "2013-01-08"})
'--day 2013-01-08'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.limits import abridge

#: A placeholder of an argument, or of a secret (`domain.programs.secret`), whose value is passed as the argument
#: `secret:<reference>`.
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_.\-]+|secret:[^{}\s\"\\]+)\}")


#: Why a field has no placeholders.
NO_TEMPLATE: Final = "names of files are not chosen by the arguments of a run; give the argument to the program instead"
#: A part of a path that stays where it is.
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*", re.ASCII)
#: PostgreSQL rejects NUL, UTF-8 rejects lone surrogates, and terminals interpret the other control characters.
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
#: The tokens of a JSON text that decide whether a placeholder is within a string.
_IN_JSON: Final = re.compile(rf"""\\.|"|{_PLACEHOLDER.pattern}""", re.DOTALL)


def replace_unprintable(text: str) -> str:
    """`text` with U+FFFD for every control character except tab and line feed, and for lone surrogates, so that stores,
    environments, headers and terminals accept it.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def fill_template(text: str, arguments: Mapping[str, str], *, written: Callable[[str], str] = str) -> str:
    """`text` with each `{name}` replaced by the run's argument of that name, escaped by `written`.

    Raises:
        ConfigurationError: the run has no such argument.
    """

    return _PLACEHOLDER.sub(lambda found: written(_argument(arguments, found[1])), text)


def filled_json(text: str, arguments: Mapping[str, str]) -> str:
    """As `fill_template`, for JSON: within a JSON string the argument is escaped; elsewhere (`{"n": {count}}`) it is
    inserted unchanged.

    >>> filled_json('{"text": "{note}"}', {"note": 'a "b"'})
    '{"text": "a \\\\"b\\\\""}'

    Raises:
        ConfigurationError: the run has no such argument.
    """
    quoted = False

    def value(found: re.Match[str]) -> str:
        nonlocal quoted
        if found[1] is None:
            quoted ^= found[0] == '"'
            return found[0]
        argument = _argument(arguments, found[1])
        return json.dumps(argument, ensure_ascii=False)[1:-1] if quoted else argument

    return _IN_JSON.sub(value, text)


def fill_path(text: str, arguments: Mapping[str, str]) -> str:
    """As `fill_template`, for the path of a file in a program that was stored before templates were refused there: what
    a caller gives names a file beside, not elsewhere.

    >>> fill_path("prog/{job}.py", {"job": "load"})
    'prog/load.py'

    Raises:
        ConfigurationError: the run has no such argument, or its value has other characters than letters, digits and
            `_ - .`, or begins with one of the last two.
    """

    def write_argument(value: str) -> str:
        if not _SEGMENT.fullmatch(value):
            raise ConfigurationError(f"$.main: '{text}' takes no value such as {abridge(value)}: {NO_TEMPLATE}")
        return value

    return fill_template(text, arguments, written=write_argument)


def filled_part(text: str, arguments: Mapping[str, str]) -> str:
    """As `fill_template`, for a part of a command line whose reader has options of ours: no caller gives it one.

    >>> filled_part("{day}", {"day": "-1"})
    '-1'

    Raises:
        ConfigurationError: the run has no such argument, or the part would be an option that the program does not have.
    """
    part = fill_template(text, arguments)
    if part.startswith("--") and not text.startswith("--"):
        raise ConfigurationError(f"the argument for {abridge(text)} begins an option of the command line")
    return part


def has_placeholder(text: str) -> bool:
    """Whether the text has a placeholder of an argument."""
    return any(not found[1].startswith("secret:") for found in _PLACEHOLDER.finditer(text))


def is_json(text: str) -> bool:
    """Whether the text is a JSON object or list once its placeholders are filled with numbers or plain words."""
    try:
        found = json.loads(_PLACEHOLDER.sub("0", text))
    except ValueError:
        return False
    return isinstance(found, dict | list)


def _argument(arguments: Mapping[str, str], name: str) -> str:
    if name not in arguments:
        raise ConfigurationError(f"the program asks for argument '{name}', which the run does not have")
    return arguments[name]
