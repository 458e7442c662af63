"""Processes of the product and of these tests, started as a process supervisor starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamsched.domain.addresses import LOOPBACK

ROOT = Path(__file__).parents[3]


def role(name: str) -> tuple[str, ...]:
    """The command that does what `streamsched NAME` does, whatever is on the PATH."""
    return sys.executable, "-c", "from streamsched.cli.main import main; main()", name


def module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module."""
    return sys.executable, "-m", name, *arguments


def environ(**settings: object) -> dict[str, str]:
    """An environment in which these settings, each by its name in lower case, are the only ones of the product. The
    API is open and loopback may be sent to, unless they say otherwise.
    """
    others = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")}
    own = {"api_access": "open", "outgoing_networks": LOOPBACK, **settings}
    return {**others, **{f"STREAMSCHED_{name.upper()}": str(value) for name, value in own.items()}}


def start(command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """What it says is added to the log."""
    with log.open("ab") as out:
        return subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
