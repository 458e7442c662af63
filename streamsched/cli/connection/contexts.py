"""Contexts: servers by name, with their tokens, in a file of the user.

The file is `contexts.json` in `STREAMSCHED_CONFIG_DIR`, else in `streamsched/` of `XDG_CONFIG_HOME`, else of
`~/.config`. Only its owner may read it. A token is written in the file, or the name of a variable or file that has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from streamsched.domain.errors import ConfigurationError, NotFoundError
from streamsched.process.files import write_atomically

CONFIG_DIR: Final = "STREAMSCHED_CONFIG_DIR"
_NAME: Final = "contexts.json"
#: Permissions of the folder.
_FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class ServerContext:
    """A server by name.

    Attributes:
        token: the token itself; empty: none, or the next two.
        token_env: the name of the variable that has the token.
        token_file: the absolute path of the file that has the token.
    """

    name: str
    url: str
    token: str = ""
    token_env: str = ""
    token_file: str = ""

    def read_token(self, environ: Mapping[str, str]) -> str:
        """The token; empty when the context has none.

        Raises:
            ConfigurationError: the variable is not set, or the file cannot be read.
        """
        if self.token_env:
            if not environ.get(self.token_env):
                raise ConfigurationError(f"context '{self.name}' reads its token from {self.token_env}, which is unset")
            return environ[self.token_env]
        if self.token_file:
            try:
                return Path(self.token_file).read_text().strip()
            except (OSError, ValueError) as exc:
                raise ConfigurationError(f"context '{self.name}' cannot read its token: {exc}") from exc
        return self.token

    @property
    def token_source(self) -> str:
        """Where the token is, for people; never the token."""
        if self.token_env:
            return f"variable {self.token_env}"
        return f"file {self.token_file}" if self.token_file else "stored" if self.token else "none"


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts by name, and the name of the current one, empty when there is none."""

    known: Mapping[str, ServerContext]
    current: str = ""

    def find(self, name: str) -> ServerContext:
        """The context of that name.

        Raises:
            NotFoundError: there is no such context.
        """
        if name not in self.known:
            raise NotFoundError("context", name)
        return self.known[name]

    def put(self, context: ServerContext) -> Contexts:
        """These with one more, or with one replaced."""
        return replace(self, known={**self.known, context.name: context})

    def remove(self, name: str) -> Contexts:
        """These without one; if it was the current one, there is none."""
        kept = {each: context for each, context in self.known.items() if each != name}
        return Contexts(kept, "" if self.current == name else self.current)


def contexts_file(environ: Mapping[str, str]) -> Path:
    """The path of the user's file; it may not exist."""
    if environ.get(CONFIG_DIR):
        return Path(environ[CONFIG_DIR]) / _NAME
    home = environ.get("XDG_CONFIG_HOME")
    folder = (
        Path(home) if home and Path(home).is_absolute() else Path(environ.get("HOME") or "~").expanduser() / ".config"
    )
    return folder / "streamsched" / _NAME


def read_contexts(environ: Mapping[str, str]) -> Contexts:
    """The user's contexts; none without a file.

    Raises:
        ConfigurationError: the file is not one of contexts, or others may read it although it has a token.
    """
    path = contexts_file(environ)
    try:
        raw, mode = path.read_bytes(), path.stat().st_mode
    except FileNotFoundError:
        return Contexts({})
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc.strerror}") from exc
    try:
        document = json.loads(raw)
        found = Contexts(
            {name: _context(name, each) for name, each in document["contexts"].items()}, document["current"]
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ConfigurationError(f"{path} is not a file of contexts: {exc}") from exc
    if mode & 0o077 and any(each.token for each in found.known.values()):
        raise ConfigurationError(f"{path} has tokens and other users may read it: chmod 600 {path}")
    return found


def write_contexts(contexts: Contexts, environ: Mapping[str, str]) -> Path:
    """Replaces the file in one step; only its owner may read it. Returns its path.

    Raises:
        ConfigurationError: it cannot be written.
    """
    path = contexts_file(environ)
    document = {"current": contexts.current, "contexts": {name: _json(each) for name, each in contexts.known.items()}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        with write_atomically(path, private=True) as file:
            file.write(json.dumps(document, indent=2).encode() + b"\n")
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be written: {exc.strerror}") from exc
    return path


def _context(name: str, document: Mapping[str, Any]) -> ServerContext:
    texts = {each: document.get(each, "") for each in ("url", "token", "tokenEnv", "tokenFile")}
    if not texts["url"] or not all(isinstance(each, str) for each in texts.values()):
        raise ValueError(f"context '{name}' has no URL, or a field that is not a text")
    return ServerContext(name, texts["url"], texts["token"], texts["tokenEnv"], texts["tokenFile"])


def _json(context: ServerContext) -> dict[str, str]:
    fields = {
        "url": context.url,
        "token": context.token,
        "tokenEnv": context.token_env,
        "tokenFile": context.token_file,
    }
    return {name: value for name, value in fields.items() if value}
