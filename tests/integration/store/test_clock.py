"""PostgreSQL's clock: on machines whose own is wrong, and when it jumps itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from structlog.testing import capture_logs

from streamsched.domain.clock_judge import ClockFact, confirm_clock
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.clock_judgements import ClockJudgements
from streamsched.testing.clock import SettableClock
from tests.support.wrong_clock import WrongClock

pytestmark = pytest.mark.postgres

YEAR = timedelta(days=365)
#: How exactly a test knows what time it is.
MOMENT = timedelta(seconds=2)


class Counted:
    """A monotonic clock that tests turn."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Truth:
    """The time: what passes here passes for the database, for its machine and for the monotonic clocks; only the
    database's clock jumps.
    """

    def __init__(self, wrong: WrongClock, own: SettableClock, counted: Counted) -> None:
        self._wrong = wrong
        self._own = own
        self._counted = counted
        self._passed = timedelta(0)
        self._off = timedelta(0)

    async def jump(self, off: timedelta) -> None:
        self._off = off
        await self._wrong.set(off + self._passed)

    async def passes(self, seconds: float, *clocks: PostgresClock) -> None:
        """The clocks measure every five seconds."""
        left = timedelta(seconds=seconds)
        while left:
            step = min(left, timedelta(seconds=5))
            left -= step
            self._passed += step
            self._counted.seconds += step.total_seconds()
            self._own.advance(step)
            await self.jump(self._off)
            for clock in clocks:
                await clock.compare()


@pytest.fixture
def own(pool: asyncpg.Pool) -> SettableClock:
    return SettableClock(datetime.now(UTC))


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def truth(wrong_clock: WrongClock, own: SettableClock, counted: Counted) -> Truth:
    return Truth(wrong_clock, own, counted)


@pytest.mark.parametrize("off", [timedelta(0), timedelta(hours=3), timedelta(days=-2)])
async def test_a_machines_wrong_clock_is_never_the_time(pool: asyncpg.Pool, off: timedelta) -> None:
    clock = PostgresClock(pool, SettableClock(datetime.now(UTC) + off), counted=Counted())
    begun = await pool.fetchval("SELECT clock_timestamp()")

    await clock.compare()

    assert begun <= clock.now() <= await pool.fetchval("SELECT clock_timestamp()")
    assert clock.in_doubt == (off != timedelta(0))  # until other processes would have said that the database's jumped
    assert clock.own_ahead == pytest.approx(off, abs=MOMENT)


async def test_a_machines_clock_that_is_put_forward_changes_nothing(
    pool: asyncpg.Pool, own: SettableClock, counted: Counted
) -> None:
    """A day ahead for half a minute silenced `EVERY 10s` for a day."""
    clock = PostgresClock(pool, own, counted=counted)
    await clock.compare()
    before = clock.now()

    own.advance(timedelta(days=1))
    counted.seconds += 2

    assert clock.now() == before + timedelta(seconds=2)
    await clock.compare()
    assert clock.now() <= await pool.fetchval("SELECT clock_timestamp()")
    assert not clock.in_doubt


async def test_a_jump_for_a_minute_is_no_time_for_any_process(
    truth: Truth, pool: asyncpg.Pool, own: SettableClock, counted: Counted
) -> None:
    first = PostgresClock(pool, own, name="one", counted=counted)
    second = PostgresClock(pool, own, name="two", counted=counted)
    for each in (first, second):
        await each.compare()
        assert not each.in_doubt
    begun = first.now()
    await truth.jump(YEAR)

    with capture_logs() as lines:
        await truth.passes(60, first, second)

    for each in (first, second):
        assert each.now() - begun == pytest.approx(timedelta(seconds=60), abs=MOMENT)
        assert each.in_doubt
        assert each.lead == pytest.approx(YEAR, abs=timedelta(minutes=2))
        assert "jumped 36" in (each.doubt or "")
    jumps = [each for each in lines if each["event"] == "clock.jumped"]
    assert len(jumps) == 2, "each process says so once"
    assert {each["judged_by"] for each in jumps} == {"one"}
    assert (jumps[0]["database"][:4], jumps[0]["counted"][:4]) == (str(begun.year + 1), str(begun.year))
    # A process that starts now has no count of its own.
    late = PostgresClock(pool, own, name="late", counted=counted)
    await late.compare()
    assert late.in_doubt
    assert late.now() - first.now() == pytest.approx(timedelta(0), abs=MOMENT)

    await truth.jump(timedelta(0))
    with capture_logs() as lines:
        await truth.passes(5, first, second, late)
        assert [each.in_doubt for each in (first, second, late)] == [True] * 3
        assert first.doubt is None
        await truth.passes(31, first, second, late)

    assert [each.in_doubt for each in (first, second, late)] == [False] * 3
    assert [each["event"] for each in lines].count("clock.returned") == 3
    assert (await ClockJudgements(pool).state()).fact is ClockFact.RETURNED


async def test_a_person_confirms_the_new_time(
    truth: Truth, pool: asyncpg.Pool, own: SettableClock, counted: Counted
) -> None:
    clock, judgements = PostgresClock(pool, own, counted=counted), ClockJudgements(pool)
    await clock.compare()
    begun = clock.now()
    await truth.jump(YEAR)
    await truth.passes(600, clock)
    assert clock.in_doubt

    state = await judgements.state()
    proposal = confirm_clock(state.record)
    assert proposal is not None
    assert await judgements.judge(proposal, theirs=state.theirs, at=state.theirs - state.record.ahead, by="ann")
    assert not await judgements.judge(proposal, theirs=state.theirs, at=state.theirs, by="bob"), "it was ann's"
    await clock.compare()

    assert not clock.in_doubt
    assert clock.now() - begun == pytest.approx(YEAR + timedelta(minutes=10), abs=timedelta(minutes=1))
    assert (await judgements.state()).judged_by == "ann"


async def test_a_small_jump_is_accepted_after_half_a_minute(
    truth: Truth, pool: asyncpg.Pool, own: SettableClock, counted: Counted
) -> None:
    clock = PostgresClock(pool, own, counted=counted)
    await clock.compare()
    begun = clock.now()
    await truth.jump(timedelta(minutes=40))

    await truth.passes(25, clock)
    assert clock.in_doubt
    await truth.passes(12, clock)

    assert not clock.in_doubt
    assert clock.now() - begun == pytest.approx(timedelta(minutes=40, seconds=37), abs=timedelta(seconds=10))


async def test_a_clock_out_of_the_years_that_dates_have_is_a_jump_too(
    truth: Truth, pool: asyncpg.Pool, own: SettableClock, counted: Counted
) -> None:
    clock = PostgresClock(pool, own, counted=counted)
    await clock.compare()
    begun = clock.now()
    for off in (200_000 * YEAR, -4000 * YEAR):
        await truth.jump(off)
        await truth.passes(30, clock)
        assert clock.in_doubt

    assert clock.now() - begun == pytest.approx(timedelta(seconds=60), abs=MOMENT)


async def test_the_last_thousand_judgements_are_kept(pool: asyncpg.Pool) -> None:
    await pool.execute(
        "INSERT INTO clock_judgements SELECT n, 'returned', 0, NULL, now(), now(), '' FROM generate_series(1, 1500) n"
    )
    judgements = ClockJudgements(pool)
    state = await judgements.state()
    await pool.execute("UPDATE clock_judgements SET fact = 'jumped', ahead_s = 9 WHERE number = 1500")
    proposal = confirm_clock((await judgements.state()).record)
    assert proposal is not None

    assert await judgements.judge(proposal, theirs=state.theirs, at=state.theirs, by="")

    assert await pool.fetchval("SELECT min(number) FROM clock_judgements") == 502
