"""Settings of Spark whose values are secrets: in a file that only the user of the launcher can read, never in argv."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError
from streamsched.process.closed_process import plain_environ
from streamsched.process.os_user import OsUser, give, identity

#: Spark's own pattern of names whose values it does not show.
_SPARKS: Final = "(?i)secret|password|token|access[.]?key"
_DEFAULTS: Final = "spark-defaults.conf"
_REDACTION: Final = "spark.redaction.regex"
_MOST_DEFAULTS: Final = 1024 * 1024
#: How long one may take to be read: it may be a pipe.
_PATIENCE_S: Final = 10.0


def redaction(names: Iterable[str]) -> dict[str, str]:
    """The setting by which Spark shows none of these settings in its pages and event logs."""
    listed = "|".join(re.escape(name) for name in sorted(names))
    return {_REDACTION: f"{_SPARKS}|{listed}"} if listed else {}


def properties(conf: Mapping[str, str], environ: Mapping[str, str], home: Path, user: OsUser | None = None) -> bytes:
    """The content of a file for `--properties-file`: the installation's own `spark-defaults.conf`, which Spark does not
    read beside such a file, and then these settings. `user`: as whom the program runs; the defaults, whose folder a
    definition may name, are what this user can read.

    Raises:
        ConfigurationError: the defaults have more than 1 MiB, or cannot be read in time.
    """
    defaults = Path(environ.get("SPARK_CONF_DIR") or home / "conf") / _DEFAULTS
    lines = [f"{_write_value(name)} {_write_value(value)}" for name, value in conf.items()]
    return "\n".join([_text_of(defaults, user), *lines, ""]).encode()


def _text_of(defaults: Path, user: OsUser | None) -> str:
    """Empty when it does not exist, or is not for the user."""
    command = ("head", "-c", str(_MOST_DEFAULTS + 1), os.fspath(defaults.absolute()))
    try:
        found = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
            env=plain_environ(os.environ),
            **identity(user),
        )
    except subprocess.TimeoutExpired as exc:
        raise ConfigurationError(f"{defaults} cannot be read in {_PATIENCE_S:g} s") from exc
    except OSError as exc:
        raise ConfigurationError(f"{defaults} cannot be read: {exc}") from exc
    if len(found.stdout) > _MOST_DEFAULTS:
        raise ConfigurationError(f"{defaults} has more than {_MOST_DEFAULTS} bytes")
    return found.stdout.decode(errors="replace") if found.returncode == 0 else ""


def write_private(path: Path, content: bytes, user: OsUser | None = None) -> None:
    """Writes a file that only its owner can read: this process's user, or `user`.

    Raises:
        OSError: it cannot be written.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        give(descriptor, user)


def _write_value(text: str) -> str:
    """As Java's `Properties` reads it."""
    return "".join(_character(each) for each in text)


def _character(each: str) -> str:
    if each.isascii() and (each.isalnum() or each in "._-/"):
        return each
    units = each.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
