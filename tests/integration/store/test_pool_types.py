"""Values that Python cannot show are read as something, so that the rows of others in the same result are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamsched.store.connections import open_pool

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("written", "year"),
    [
        ("infinity", 9999),
        ("-infinity", 1),
        ("294276-12-31 23:59:59Z", 9999),
        ("4713-01-01 00:00:00 BC", 1),
        ("9999-12-31 23:59:59.999999Z", 9999),
    ],
)
async def test_an_instant_beyond_pythons_is_the_last_or_the_first(database: str, written: str, year: int) -> None:
    pool = await open_pool(database)
    rows = await pool.fetch(f"SELECT '{written}'::timestamptz AS at UNION ALL SELECT '2026-01-01Z'::timestamptz")
    await pool.close()

    assert rows[0]["at"].year == year
    assert rows[1]["at"] == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("written", ["repeat('[', 3000) || repeat(']', 3000)", "'1e400'"])
async def test_json_that_cannot_be_read_is_a_text_that_no_codec_takes(database: str, written: str) -> None:
    pool = await open_pool(database)
    rows = await pool.fetch(f"SELECT ({written})::jsonb AS it UNION ALL SELECT '{{}}'::jsonb")
    await pool.close()

    assert rows[0]["it"].startswith("unreadable: ")
    assert rows[1]["it"] == {}


async def test_an_interval_beyond_pythons_is_the_longest(database: str) -> None:
    pool = await open_pool(database)
    found = await pool.fetchrow("SELECT interval '170000000 years' AS a, interval '-170000000 years' AS b")
    await pool.close()

    assert found["a"] == -found["b"] == timedelta(days=365_250)


async def test_instants_and_intervals_come_back_as_they_were(database: str) -> None:
    pool = await open_pool(database, max_size=1)
    written: list[tuple[datetime, timedelta]] = []
    instants = st.datetimes(datetime(1, 1, 4), datetime(9999, 12, 28), timezones=st.just(UTC))  # noqa: DTZ001

    @settings(max_examples=50, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.tuples(instants, st.timedeltas(timedelta(-300_000), timedelta(300_000))))
    def draw(some: tuple[datetime, timedelta]) -> None:
        written.append(some)

    draw()
    instants_, durations = zip(*written, strict=True)
    rows = await pool.fetch("SELECT * FROM unnest($1::timestamptz[], $2::interval[]) AS t (a, b)", instants_, durations)
    await pool.close()

    assert [tuple(row) for row in rows] == written
