"""Late events against a model that counts with its fingers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.fold.effect import LateEvent, Launch
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.trigger import Partitions

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FLIGHTS = DatasetRef("default", "flights")
WEEKLY = ScheduleRef("default", "flights", "weekly")

#: (appended, happened) in minutes after noon: anything, before its time too, for clocks disagree.
event_list = st.lists(st.tuples(st.integers(0, 300), st.integers(-300, 310)), max_size=30).map(sorted)
policies = st.none() | st.builds(Late, st.integers(1, 200).map(lambda m: timedelta(minutes=m)), st.sampled_from(OnLate))


@given(event_list, policies, st.integers(1, 4), st.booleans())
def test_late_events_count_go_or_stand_aside_as_the_policy_says(
    come: list[tuple[int, int]], late: Late | None, wanted: int, restarts: bool
) -> None:
    state = fold(None, Put(WEEKLY, 1, True, Partitions(FLIGHTS, wanted), late=late), at=NOON).state
    reported: list[list[str]] = []
    aside: list[str] = []
    verdicts: list[Verdict] = []
    for number, (appended, happened) in enumerate(come):
        fact = PartitionsAdded(FLIGHTS, (Partition(f"n={number}"),), 1)
        event = Event(str(number), "test", NOON + timedelta(minutes=happened), fact)
        delay = timedelta(minutes=max(0, appended - happened))
        folded = fold(state, Occurred(event, delay), at=NOON + timedelta(minutes=appended))
        state = again(folded.state) if restarts else folded.state
        reported += [
            [each.id for part in effect.job.contributions for each in part.events]
            for effect in folded.effects
            if isinstance(effect, Launch)
        ]
        aside += [effect.event.id for effect in folded.effects if isinstance(effect, LateEvent)]
        assert folded.verdict is not None
        verdicts.append(folded.verdict.verdict)

    minutes = None if late is None else late.after / timedelta(minutes=1)
    is_late = [minutes is not None and appended - happened > minutes for appended, happened in come]
    accepts = late is None or late.then is OnLate.ACCEPT
    counted = [str(n) for n, was in enumerate(is_late) if accepts or not was]
    whole = len(counted) // wanted * wanted
    assert reported == [counted[n : n + wanted] for n in range(0, whole, wanted)]
    assert aside == (
        [str(n) for n, was in enumerate(is_late) if was] if late and late.then is OnLate.SIDE_OUTPUT else []
    )
    assert verdicts == [Verdict.COUNTED if str(n) in counted else Verdict.LATE for n in range(len(come))]


def again(state: TriggerState | None) -> TriggerState | None:
    """As after a restart."""
    return None if state is None else state_codec.decode(state_codec.encode(state))
