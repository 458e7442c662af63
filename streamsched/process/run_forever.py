"""Repeats a step for the lifetime of a process, also while what it needs is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import structlog

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.ports.clock import Clock
from streamsched.process.cancellation import is_cancelled

log = structlog.get_logger()

_RETRY_S: Final = 1.0
#: Seconds until the next look at a clock in doubt.
_DOUBT_S: Final = 1.0


async def run_forever(
    step: Callable[[], Awaitable[float]],
    *,
    called: str,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    retry_s: float = _RETRY_S,
    ending_by: Clock | None = None,
    **fields: object,
) -> NoReturn:
    """Calls `step` until cancelled, and pauses for the seconds it returns; 0: no pause, there may be more to do.
    `sleep`: e.g. the `wait` of a subscription, so that a notification ends the pause.

    When `step` raises `UnavailableError` or `FencedError`, logs `<called>.interrupted` with `fields` and retries after
    `retry_s` seconds, which no notification shortens. `ending_by`: the step ends or deletes something because of
    the time of this clock, so it is not called while the clock is in doubt.
    """
    while True:
        if ending_by is not None and ending_by.in_doubt:
            await asyncio.sleep(_DOUBT_S)
            continue
        try:
            pause = await step()
        except (UnavailableError, FencedError) as exc:
            if is_cancelled():
                raise asyncio.CancelledError from exc
            log.warning(f"{called}.interrupted", **fields, reason=str(exc), again_in_s=retry_s)
            await asyncio.sleep(retry_s)
        else:
            if pause:
                await sleep(pause)
