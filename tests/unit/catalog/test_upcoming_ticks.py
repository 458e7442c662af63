"""The next ticks of many schedules, against all ticks of each sorted together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.catalog.upcoming_ticks import soonest_ticks
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.domain.ticks.forecast import forecast
from streamsched.domain.triggers.trigger import At, Cron, Every, Trigger, leaves

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)
PROGRAM = ProgramRef("default", "a", "p")

clocks: st.SearchStrategy[Trigger] = st.one_of(
    st.integers(1, 5000).map(lambda minutes: Every(timedelta(minutes=minutes))),
    st.sampled_from(["* * * * *", "0 2 * * *", "30 4 1 * *", "0 0 29 2 *"]).map(
        lambda cron: Cron(cron, "Europe/Berlin")
    ),
    st.integers(-10, 5000).map(lambda minutes: At(NOW + timedelta(minutes=minutes))),
)


@given(
    st.lists(st.one_of(clocks, st.builds(lambda a, b: a & b, clocks, clocks)), max_size=6),
    st.integers(1, 40),
    st.one_of(st.none(), st.integers(0, 5000)),
)
def test_they_are_the_first_of_all_ticks(triggers: list[Trigger], limit: int, minutes: int | None) -> None:
    until = None if minutes is None else NOW + timedelta(minutes=minutes)
    schedules = [
        ScheduleRecord(Schedule(ScheduleRef("default", "a", f"s{number}"), PROGRAM, trigger), 1, True, NOW, NOW)
        for number, trigger in enumerate(triggers)
    ]

    found = soonest_ticks(schedules, NOW, limit=limit, until=until)

    every = []
    for each in schedules:
        for leaf in {leaf for leaf in leaves(each.definition.trigger) if isinstance(leaf, Cron | Every | At)}:
            ticks = forecast(leaf, NOW, limit, created_at=NOW, schedule=each.definition.ref).ticks
            every += [(tick.fires_at, str(each.definition.ref)) for tick in ticks]
    wanted = sorted(one for one in every if until is None or one[0] <= until)[:limit]
    assert [(tick.fires_at, str(tick.schedule.definition.ref)) for tick in found] == wanted
