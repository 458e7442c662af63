"""Futures for which more than one waits."""

from __future__ import annotations

import asyncio
from typing import Any


def heard(end: asyncio.Future[Any]) -> None:
    """Whoever waits has been told why it failed, or has gone and knows that nobody can tell; that this future knows it
    too need trouble nobody. For `add_done_callback`.
    """
    if not end.cancelled():
        end.exception()
