"""As whom programs run: `STREAMSCHED_RUN_AS` and `STREAMSCHED_PROXY_USER`, a user for a namespace or a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.spark_profile import EVERYWHERE

_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,255}\$?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProgramUsers:
    """`users`: by `namespace.app.program`, by `namespace`, and for all others by `*`."""

    users: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads comma-separated `namespace=user`, `namespace.app.program=user` or `*=user`.

        Raises:
            InvalidDefinitionError: one is malformed, or named twice.
        """
        found: dict[str, str] = {}
        for each in filter(None, (part.strip() for part in text.split(","))):
            where, _, user = (part.strip() for part in each.partition("="))
            if not _USER.fullmatch(user) or not _is_place(where):
                raise InvalidDefinitionError(
                    "$", f"must be such as sales=alice,finance.app.program=bob but has '{each}'"
                )
            if where in found:
                raise InvalidDefinitionError("$", f"names {where} twice")
            found[where] = user
        return cls(found)

    def user_of(self, program: ProgramRef) -> str:
        """The user of the program; empty without one."""
        for where in (str(program), program.namespace, EVERYWHERE):
            if where in self.users:
                return self.users[where]
        return ""


def _is_place(text: str) -> bool:
    if text == EVERYWHERE:
        return True
    try:
        ProgramRef.parse(text if "." in text else f"{text}.app.program")
    except InvalidError:
        return False
    return text.count(".") in (0, 2)
