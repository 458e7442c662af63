"""Futures whose exception may have no awaiter."""

from __future__ import annotations

import asyncio
from typing import Any


def retrieve_exception(end: asyncio.Future[Any]) -> None:
    """Retrieves the exception so that asyncio does not log it as never retrieved. For `add_done_callback`."""
    if not end.cancelled():
        end.exception()
