"""Texts of programs with places for the arguments of a run.

>>> filled("--day {day}", {"day": "2013-01-08"})
'--day 2013-01-08'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from streamsched.domain.errors import ConfigurationError

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_.\-]+)\}")


def filled(text: str, arguments: Mapping[str, str], *, written: Callable[[str], str] = str) -> str:
    """`text` with each `{name}` replaced by the run's argument of that name, `written` as the place needs it.

    Raises:
        ConfigurationError: the run has no such argument.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in arguments:
            raise ConfigurationError(f"the program asks for argument '{found[1]}', which the run does not have")
        return written(arguments[found[1]])

    return _PLACEHOLDER.sub(value, text)
