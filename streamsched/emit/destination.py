"""The installation a process belongs to: where to send events, and the default namespace.

| setting   | the first that is set                                                                               |
|-----------|-----------------------------------------------------------------------------------------------------|
| URL       | `STREAMSCHED_EMIT_URL`; `STREAMSCHED_URL`; from `dev.json` of a running `streamsched dev`            |
| spool     | `STREAMSCHED_SPOOL`, which every run has; `spool/outside-runs/` beside that `dev.json`; else none   |
| token     | `STREAMSCHED_TOKEN`, which every run has; else that of `dev`, for its URL                           |
| namespace | `STREAMSCHED_NAMESPACE`, which every run has; else `default`                                        |

`dev.json` is in `STREAMSCHED_DATA_DIR`, else in `.streamsched/` of the working directory or of the nearest folder above
it that has one. It exists while `dev` runs. The command line finds its server by the same file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsched.domain.names import DEFAULT_NAMESPACE

EMIT_URL: Final = "STREAMSCHED_EMIT_URL"
URL: Final = "STREAMSCHED_URL"
SPOOL: Final = "STREAMSCHED_SPOOL"
TOKEN: Final = "STREAMSCHED_TOKEN"
NAMESPACE: Final = "STREAMSCHED_NAMESPACE"
DATA_DIR: Final = "STREAMSCHED_DATA_DIR"
FOLDER: Final = ".streamsched"
#: Below a data directory: the folder of spools. In it, each run has one of its name; what other processes of the person
#: who started `dev` spool is in one whose name, without a dot, no run has.
SPOOLS: Final = "spool"
OUTSIDE_RUNS: Final = "outside-runs"

#: Why there is no destination; the end of an error message.
NO_DESTINATION: Final = (
    f"neither {EMIT_URL} nor {URL} is set, and no `streamsched dev` runs in this folder or one above it: start one, or "
    "set the variable to the URL of the API"
)


@dataclass(frozen=True, slots=True)
class Destination:
    """The URL to send events to, the spool folder, if any, and the token for the URL; empty: none."""

    url: str
    spool: Path | None
    token: str = ""


def find_destination(environ: Mapping[str, str] | None = None) -> Destination | None:
    """The destination of this process's events; None without an installation."""
    env = os.environ if environ is None else environ
    spool = Path(env[SPOOL]) if env.get(SPOOL) else None
    given = env.get(EMIT_URL) or env.get(URL)
    if given:
        return Destination(given, spool, token_for(given, env))
    folder = dev_folder(env)
    url = None if folder is None else dev_url(folder)
    if folder is None or url is None:
        return None
    return Destination(url, spool or folder / SPOOLS / OUTSIDE_RUNS, token_for(url, env))


def namespace(environ: Mapping[str, str] | None = None) -> str:
    """The default namespace of datasets, streams and events."""
    return (os.environ if environ is None else environ).get(NAMESPACE) or DEFAULT_NAMESPACE


def dev_folder(environ: Mapping[str, str], start: Path | None = None) -> Path | None:
    """The folder of the nearest `streamsched dev` at or above `start` (default: the working directory), whether or not
    it runs.
    """
    given = environ.get(DATA_DIR)
    if given:
        return Path(given)
    here = (start or Path.cwd()).absolute()
    return next((folder / FOLDER for folder in (here, *here.parents) if (folder / FOLDER).is_dir()), None)


def dev_url(folder: Path) -> str | None:
    """The API's URL from the `dev.json` in that folder; None without a readable file."""
    try:
        return str(json.loads((folder / "dev.json").read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def token_for(url: str, environ: Mapping[str, str], folder: Path | None = None) -> str:
    """The token for requests to this URL: `STREAMSCHED_TOKEN`, else that of the `streamsched dev` of `folder` (default:
    the nearest one) if it has this URL; empty when there is none.
    """
    if environ.get(TOKEN):
        return environ[TOKEN]
    found = folder or dev_folder(environ)
    if found is None or dev_url(found) != url.rstrip("/"):
        return ""
    try:
        return (found / "token").read_text().strip()
    except OSError:
        return ""
