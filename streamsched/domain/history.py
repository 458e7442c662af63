"""The history: one line for each change of a schedule, job, run or limit, with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class HistoryEntry(NamedTuple):
    """One line of the history: a change of a schedule, job, run or limit, with its reason."""

    at: datetime
    subject_kind: str
    subject: str
    action: str
    reason: str = ""
    detail: Mapping[str, Any] | None = None
