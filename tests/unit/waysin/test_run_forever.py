"""A loop that goes on, whatever is away meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.process.cancellation import cancel
from streamsched.process.run_forever import run_forever

pytestmark = pytest.mark.timeout(60)


class Looks:
    """Looks that find what was written down for them, one after the other; then nothing more ever comes."""

    def __init__(self, *found: float | Exception) -> None:
        self._found = list(found)
        self.over = asyncio.Event()

    async def look(self) -> float:
        if not self._found:
            self.over.set()
            await asyncio.Event().wait()
        found = self._found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


async def test_it_rests_as_long_as_the_look_said_and_not_at_all_when_there_may_be_more() -> None:
    looks, rests = Looks(0.0, 3.0, 0.0, 0.5), list[float]()

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    attending = asyncio.create_task(run_forever(looks.look, sleep=rest, called="mill"))
    await looks.over.wait()
    await cancel(attending)

    assert rests == [3.0, 0.5]


@pytest.mark.parametrize("away", [UnavailableError("the server went away"), FencedError("another one took over")])
async def test_what_is_away_is_reported_and_looked_for_again(away: Exception) -> None:
    looks = Looks(away)
    with capture_logs() as said:
        attending = asyncio.create_task(run_forever(looks.look, called="mill", retry_s=0.01, topic="corn"))
        await looks.over.wait()
    await cancel(attending)

    reported = {
        "event": "mill.interrupted",
        "log_level": "warning",
        "topic": "corn",
        "reason": str(away),
        "again_in_s": 0.01,
    }
    assert said == [reported]


async def test_a_mistake_is_no_absence() -> None:
    with pytest.raises(ValueError, match="boom"):
        await run_forever(Looks(ValueError("boom")).look, called="mill")


async def test_an_error_in_the_place_of_the_cancellation_ends_it() -> None:
    begun, asked = asyncio.Event(), list[int]()

    async def look() -> float:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as exc:
            asked.append(1)
            raise UnavailableError("the server went away") from exc
        return 0.0

    attending = asyncio.create_task(run_forever(look, called="mill"))
    await begun.wait()
    await cancel(attending, retry_s=30)

    assert attending.cancelled()
    assert len(asked) == 1
