"""Secrets by reference: a definition names where a value is, never the value.

A reference is `provider:name`: `env:DB_PASSWORD`, `file:/run/secrets/db#password`, or that of another provider. As the
value of a variable or a setting it is `{"secret": reference}` in JSON; within a text it is `{secret:reference}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge, check_most

#: Most characters of a reference.
LONGEST_REFERENCE: Final = 1000
#: The prefix of the installation's own variables, which no program may refer to.
OWN: Final = "STREAMSCHED_"
#: The placeholder of a reference within a text.
PLACEHOLDER: Final = re.compile(r"\{secret:([^{}\s\"\\]+)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_REFERENCE: Final = re.compile(r"([a-z][a-z0-9_-]*):([^\s{}\"\\\x00-\x1f\x7f]+)")


@dataclass(frozen=True, slots=True, order=True)
class Secret:
    """A reference to a secret. `str` is its placeholder, so that an f-string in a definition has the reference.

    Attributes:
        provider: `env`, `file`, or the name of an entry point of group `streamsched.secret_providers`.
        name: what the provider finds the value by: a variable; an absolute path, with `#key` of a JSON object; or what
            another provider defines.
    """

    provider: str
    name: str

    @classmethod
    def parse(cls, reference: str, path: str = "$") -> Self:
        """The secret that a reference such as `provider:name` names.

        Raises:
            InvalidDefinitionError: it is no reference, or one that no program may have.
        """
        matched = _REFERENCE.fullmatch(reference)
        if matched is None:
            raise InvalidDefinitionError(
                path, f"must be a reference such as env:NAME or file:/path#key but is {abridge(reference)}"
            )
        check_most(len(reference), LONGEST_REFERENCE, path, "characters")
        secret = cls(matched[1], matched[2])
        if secret.provider == "env":
            _check_variable(secret.name, path)
        elif secret.provider == "file":
            _check_file(secret.name, path)
        return secret

    @property
    def reference(self) -> str:
        """Its text, as in messages."""
        return f"{self.provider}:{self.name}"

    def __str__(self) -> str:
        return f"{{secret:{self.reference}}}"


def secrets_in(text: str, path: str) -> Iterator[Secret]:
    """The references in a text.

    Raises:
        InvalidDefinitionError: one is malformed; `path` is that of the text.
    """
    for found in PLACEHOLDER.finditer(text):
        yield Secret.parse(found[1], path)


def refuse_secrets(texts: Mapping[str, str], why: str) -> None:
    """Checks that none of these texts, by their paths, refers to a secret.

    Raises:
        InvalidDefinitionError: one does; `why` says why it may not.
    """
    for path, text in texts.items():
        if PLACEHOLDER.search(text):
            raise InvalidDefinitionError(path, f"refers to a secret, but {why}")


def _check_variable(name: str, path: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise InvalidDefinitionError(path, f"must name a variable after env: but is {abridge(name)}")
    if name.upper().startswith(OWN):
        raise InvalidDefinitionError(path, f"names {name}, a variable of the installation itself")


def _check_file(name: str, path: str) -> None:
    parts = name.partition("#")[0].split("/")
    if parts[0] or len(parts) < 2 or not parts[-1] or {".", ".."} & set(parts):
        raise InvalidDefinitionError(
            path, f"must name an absolute path without '..' after file: but is {abridge(name)}"
        )
