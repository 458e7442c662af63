"""Attending to something for as long as the process lives, whatever is away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import structlog

from streamsched.cancellation import cancelled
from streamsched.domain.errors import FencedError, UnavailableError

log = structlog.get_logger()

_AGAIN: Final = 1.0


async def attend(
    look: Callable[[], Awaitable[float]],
    *,
    called: str,
    rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
    again_s: float = _AGAIN,
    **facts: object,
) -> NoReturn:
    """Looks until cancelled, and rests between for as many seconds as `look` returned; 0: not at all, there may be
    more. With a ring's `wait` as `rest` the bell ends it.

    While the far end is away, or another has taken over, it says so (`<called>.interrupted`, with `facts`) and looks
    again after `again_s` seconds, whatever rings: what stands still is not asked more often than that.
    """
    while True:
        try:
            pause = await look()
        except (UnavailableError, FencedError) as exc:
            if cancelled():
                raise asyncio.CancelledError from exc
            log.warning(f"{called}.interrupted", **facts, reason=str(exc), again_in_s=again_s)
            await asyncio.sleep(again_s)
        else:
            if pause:
                await rest(pause)
