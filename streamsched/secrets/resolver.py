"""Reads the secrets that a definition refers to, in the process that starts the program, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.programs.secret import Secret
from streamsched.domain.programs.secret_rules import SecretRule
from streamsched.process.entry_points import installed_points

GROUP: Final = "streamsched.secret_providers"
#: Least characters of a value: a shorter one could not be kept out of texts without spoiling them.
SHORTEST: Final = 4
#: Most bytes of a value, and of a file that has one.
LONGEST: Final = 64 * 1024
#: Seconds for all secrets of a run.
_PATIENCE: Final = 20.0
_THREADS: Final = 4

#: Returns the value of a name. Called in a thread; it may block and raise.
Reader = Callable[[str], str]


def find_installed() -> Mapping[str, Callable[[], Reader]]:
    """The providers of this environment by name; imported when they are first used."""
    return {name: point.load for name, point in installed_points(GROUP).items()}


class Secrets:
    """Belongs to one event loop.

    Args:
        rules: which secrets a namespace may refer to.
        environ: the variables that `env:` reads.
        providers: the others by name; a reader is made when it is first needed.
    """

    def __init__(
        self,
        rules: Sequence[SecretRule] = (),
        environ: Mapping[str, str] | None = None,
        providers: Mapping[str, Callable[[], Reader]] | None = None,
    ) -> None:
        self._rules = rules
        self._environ = environ or {}
        self._providers = providers or {}
        self._threads: ThreadPoolExecutor | None = None

    async def read(self, namespace: str, secrets: Mapping[Secret, str]) -> dict[Secret, str]:
        """The values of secrets for a program of the namespace. `secrets`: each with the path of its field.

        Raises:
            ConfigurationError: one may not be referred to, does not exist, cannot be read in time, or is no usable
                value. The message has the path and the reference, never a value.
        """
        wanted = sorted(secrets)
        rules: dict[Secret, Sequence[SecretRule]] = {}
        for each in wanted:
            with _prefix_errors(secrets[each]):
                rules[each] = self._permitting_rules(namespace, each)
        if not wanted:
            return {}
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="secrets")
        loop = asyncio.get_running_loop()
        found: dict[Secret, str] = {}
        current = wanted[0]
        try:
            async with asyncio.timeout(_PATIENCE):
                for current in wanted:
                    with _prefix_errors(secrets[current]):
                        found[current] = await loop.run_in_executor(self._threads, self._value, current, rules[current])
        except TimeoutError as exc:
            with _prefix_errors(secrets[current]):
                why = f"secret {current.reference} could not be read within {_PATIENCE:g} s"
                raise ConfigurationError(why) from exc
        return found

    def _permitting_rules(self, namespace: str, secret: Secret) -> Sequence[SecretRule]:
        found = [rule for rule in self._rules if rule.permits(namespace, secret)]
        if not found:
            raise ConfigurationError(
                f"secret {secret.reference} may not be used in namespace {namespace}: no rule of STREAMSCHED_SECRETS "
                "of the launcher permits it"
            )
        return found

    def _value(self, secret: Secret, rules: Sequence[SecretRule]) -> str:
        match secret.provider:
            case "env":
                value = self._environ.get(secret.name)
                if value is None:
                    raise ConfigurationError(f"secret {secret.reference} does not exist: the variable is not set")
            case "file":
                value = _from_file(secret, rules)
            case _:
                value = self._from_provider(secret)
        return _check_value(secret, value)

    def _from_provider(self, secret: Secret) -> object:
        if secret.provider not in self._providers:
            known = ", ".join(sorted({"env", "file", *self._providers}))
            raise ConfigurationError(f"secret {secret.reference}: no provider of this name is installed ({known})")
        try:
            return self._providers[secret.provider]()(secret.name)
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - third-party code; its message may have the value
            kind = type(exc).__name__
            raise ConfigurationError(f"secret {secret.reference}: its provider failed with {kind}") from None


@contextmanager
def _prefix_errors(path: str) -> Iterator[None]:
    """Puts the path of the field in front of the message."""
    try:
        yield
    except ConfigurationError as exc:
        raise ConfigurationError(f"{path}: {exc}") from exc


def _from_file(secret: Secret, rules: Sequence[SecretRule]) -> object:
    name, _, key = secret.name.partition("#")
    try:
        path = Path(name).resolve(strict=True)
        if not any(path.is_relative_to(Path(rule.pattern).resolve()) for rule in rules):
            raise ConfigurationError(f"secret {secret.reference} is a link out of the permitted folder")
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as exc:
        raise ConfigurationError(f"secret {secret.reference} cannot be read: {exc.strerror}") from exc
    if len(content) > LONGEST:
        raise ConfigurationError(f"secret {secret.reference}: the file has more than {LONGEST:,} bytes")
    try:
        if not key:
            return content.decode().rstrip("\r\n")
        found = orjson.loads(content)
    except ValueError:
        kind = "JSON" if key else "UTF-8"
        raise ConfigurationError(f"secret {secret.reference}: the file is not {kind}") from None
    if not isinstance(found, dict) or key not in found:
        raise ConfigurationError(f"secret {secret.reference}: the file is no JSON object with this key")
    return found[key]


def _check_value(secret: Secret, value: object) -> str:
    """Raises:
    ConfigurationError: it is no usable value.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"secret {secret.reference} is not a text")
    if len(value) < SHORTEST:
        raise ConfigurationError(f"secret {secret.reference} has fewer than {SHORTEST} characters")
    if len(value.encode(errors="surrogateescape")) > LONGEST or "\0" in value:
        raise ConfigurationError(f"secret {secret.reference} is too long, or holds a NUL")
    return value
