"""Warns about events that no schedule listens to, most often because of a misspelt name or another namespace.

The server reports their keys in its answer. Each key is logged once per process: as a warning outside runs, where a
wrong namespace is likely; as `info` in a run, whose outputs often have no listener.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Final

RUN_ID: Final = "STREAMSCHED_RUN_ID"
#: Most keys that are logged and remembered.
_MAX_KEYS: Final = 10_000

log = logging.getLogger("streamsched.emit")
_warned: set[str] = set()


def warn_no_listeners(keys: Iterable[str]) -> None:
    """Logs the keys that have not been logged yet."""
    level = logging.INFO if os.environ.get(RUN_ID) else logging.WARNING
    for key in keys:
        if key not in _warned and len(_warned) < _MAX_KEYS:
            _warned.add(key)
            log.log(level, "no schedule listens to %s: its events start nothing. Are name and namespace right?", key)
