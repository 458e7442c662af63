"""What a shard's table holds is what the fold knows, whenever it stops; and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import cell as cell_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.events.event_list import EventList, EventPage
from streamsched.domain.fold.fold import fold
from streamsched.domain.signals.signal import Drop, Put, Signal, Woken
from streamsched.stream.agents.accumulated import IDLE_S, TriggerStates
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import keyed_strategies as keyed
from tests.support import timed_strategies as timed
from tests.support.engine import Engine
from tests.support.rerun import Stamped

KEY = f"schedule:{world.SCHEDULE}".encode()


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    """Pages of two events, so that every log fills some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_codec, "PAGE", 2)
        yield


def same(accumulated: TriggerStates, engine: Engine) -> None:
    assert accumulated.state(KEY) == engine.state
    assert list(accumulated.cells(KEY).items()) == list(engine.cells.items())


def tell(accumulated: TriggerStates, stamped: Stamped) -> None:
    before = accumulated.state(KEY)
    correlates = before is not None and before.plan.per is not None
    folded = fold(before, stamped[1], at=stamped[0], cells=accumulated.cells(KEY) if correlates else {})
    if folded.state is not before or folded.cells:
        accumulated.fold(KEY, folded)


def keeping(log: list[Stamped]) -> list[Stamped]:
    """Every other change keeps what fits, whatever it changes."""
    return [
        (at, replace(signal, keep=True) if isinstance(signal, Put) and signal.generation % 2 == 0 else signal)
        for at, signal in log
    ]


@examples(150)
@given(st.one_of(timed.logs(), keyed.logs(), timed.logs(timed.leaves())), st.lists(st.sampled_from("tsir"), min_size=1))
def test_the_table_always_decodes_to_what_is_in_memory_and_a_drop_leaves_no_row(
    log: list[Stamped], ends: list[str]
) -> None:
    """A turn goes on (t), ends (s), ends long after the one before (i), or ends and the shard starts again (r)."""
    table, clock = dict[bytes, bytes](), [0.0]
    accumulated, engine = TriggerStates(table, now=lambda: clock[0]), Engine(world.SCHEDULE)
    for place, (at, signal) in enumerate(keeping(log)):
        due = [(asked, key) for key, asked in engine.asked.items() if asked <= at] if place % 3 else []
        woken: list[Signal] = [Woken(world.SCHEDULE, 1, key, asked) for asked, key in sorted(due)]
        for each in (*woken, signal):
            tell(accumulated, (at, each))
            engine.tell(at, each)
        same(accumulated, engine)
        end = ends[place % len(ends)]
        if end == "i":
            clock[0] += 2 * IDLE_S
        if end != "t":
            accumulated.store()
            same(TriggerStates(dict(table)), engine)
        if end == "r":
            accumulated = TriggerStates(table, now=lambda: clock[0])
    tell(accumulated, (log[-1][0] + timedelta(days=9), Drop(world.SCHEDULE, 10**6)))
    accumulated.store()

    assert table == {}


def event(name: int) -> Event:
    return Event(f"e{name}", "test", timed.START, CustomHappened(timed.NAMES[0]))


def pack(events: EventList, size: int) -> None:
    """Replaces the first so many events by a page, and the next ones."""
    first, after = events.first_number, min(events.first_number + 2 * size, events.next_number)
    for start in range(first, after, max(1, size)):
        stop = min(start + size, after)
        some = events.events_between(start, stop)
        events.pack(EventPage(start, stop, lambda some=some: some))


@examples(200)
@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from(["plus", "take", "cut", "pack"]), st.integers(0, 9)), max_size=120
    )
)
def test_arrivals_are_tuples_however_versions_share(steps: list[tuple[int, str, int]]) -> None:
    """Any version may go on, also an older one; no other changes by it, and none when events leave memory."""
    versions: list[tuple[EventList, tuple[Event, ...], int]] = [(EventList(), (), 0)]
    for place, (which, step, some) in enumerate(steps):
        event_list, model, first = versions[-1 - which % min(3, len(versions))]
        if step == "plus":
            versions.append((event_list.append(event(place)), (*model, event(place)), first))
        elif step == "take":
            taken = min(some, len(model))
            versions.append((event_list.drop_first(taken), model[taken:], first + taken))
        elif step == "pack":
            pack(event_list, some)
        elif model:
            taken = min(some, len(model) - 1)
            versions.append(
                (event_list.drop_first(taken, event(place)), (event(place), *model[taken + 1 :]), first + taken)
            )
    for event_list, model, first in versions:
        assert tuple(event_list) == model
        pieces = (each.read() if isinstance(each, EventPage) else (each,) for each in event_list.pieces())
        assert tuple(chain.from_iterable(pieces)) == model
        assert (len(event_list), event_list.first_number, event_list.next_number) == (
            len(model),
            first,
            first + len(model),
        )
        whole = event_list.events_between(first, first + len(model))
        assert len(whole) == len(model)
        assert list(whole)[1:] == list(model)[1:]
    for one, _, _ in versions:
        for other, _, _ in versions[-5:]:
            if one.continues(other):
                common = range(max(one.first_number, other.first_number), min(one.next_number, other.next_number))
                if common:
                    assert list(one.events_between(common.start, common.stop)) == list(
                        other.events_between(common.start, common.stop)
                    )
