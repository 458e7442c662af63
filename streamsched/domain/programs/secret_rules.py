"""Which secrets the programs of a namespace may refer to: the rules of `STREAMSCHED_SECRETS`.

A rule is `namespace=reference`; `*` is any namespace. The reference of a variable or of another provider may have `*`
for any characters; that of a file may be a folder, which ends with `/`. Nothing is permitted without a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.secret import OWN, Secret
from streamsched.domain.programs.spark_profile import EVERYWHERE

#: Characters with a meaning in patterns that rules do not have.
_NO_PATTERN: Final = frozenset("?[]")


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A rule. `pattern`: of the secret's name."""

    namespace: str
    provider: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> SecretRule:
        """Raises:
        InvalidDefinitionError: it is no rule, or permits too much.
        """
        namespace, sign, reference = text.partition("=")
        provider, colon, pattern = reference.partition(":")
        if not (namespace and sign and provider and colon and pattern) or _NO_PATTERN & set(pattern):
            raise InvalidDefinitionError("$", f"must be rules such as shop=env:SHOP_* but has '{text}'")
        if provider == "env" and (pattern.startswith("*") or OWN.startswith(pattern.partition("*")[0].upper())):
            raise InvalidDefinitionError("$", f"'{text}' would permit variables of the installation itself")
        if provider == "file" and not pattern.startswith("/"):
            raise InvalidDefinitionError("$", f"'{text}' must have an absolute path")
        return cls(namespace, provider, pattern)

    def permits(self, namespace: str, secret: Secret) -> bool:
        """Whether programs of the namespace may refer to the secret. Of a file, its path as it is written: links are to
        be followed by the process that reads it.
        """
        if self.namespace not in (EVERYWHERE, namespace) or self.provider != secret.provider:
            return False
        name = secret.name.partition("#")[0] if self.provider == "file" else secret.name
        if self.provider == "file" and self.pattern.endswith("/"):
            return name.startswith(self.pattern)
        if self.provider == "env" and name.upper().startswith(OWN):
            return False
        return name == self.pattern if self.provider == "file" else fnmatchcase(name, self.pattern)


def parse_rules(text: str) -> Sequence[SecretRule]:
    """The rules of a comma-separated text.

    Raises:
        InvalidDefinitionError: one is malformed.
    """
    return tuple(SecretRule.parse(each.strip()) for each in text.split(",") if each.strip())


def without_secrets(environ: Mapping[str, str], rules: Iterable[SecretRule]) -> dict[str, str]:
    """The variables that programs inherit: not those of the installation, and none that a rule makes a secret."""
    patterns = [rule.pattern for rule in rules if rule.provider == "env"]
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(OWN) and not any(fnmatchcase(name, pattern) for pattern in patterns)
    }
