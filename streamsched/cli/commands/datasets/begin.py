"""Where a watcher begins."""

from __future__ import annotations

from enum import StrEnum


class Begin(StrEnum):
    """Where to begin on a dataset or a topic that was never watched."""

    NOW = "now"
    START = "start"
