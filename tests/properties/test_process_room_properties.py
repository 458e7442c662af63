"""Room for processes against a naive model: who gets the next place; no share waits for ever."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.constraints.process_room import ProcessRoom, Share, ShareTurn, reserve_of
from streamsched.domain.limits import MOST_SLOTS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SHARES = [Share(namespace, pool) for namespace in ("a", "b", "c") for pool in ("", "p", "q")]

shares = st.sampled_from(SHARES)
instants = st.integers(0, 50).map(lambda n: NOON + timedelta(minutes=n))
turns = st.lists(instants, max_size=4).map(lambda times: sorted({ShareTurn(at, f"t{n}") for n, at in enumerate(times)}))


@st.composite
def rooms(draw: st.DrawFn) -> ProcessRoom:
    launchers = tuple(
        (f"h{n}", places) for n, places in enumerate(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    )
    return ProcessRoom(
        launchers,
        draw(st.dictionaries(shares, st.integers(0, 6))),
        draw(st.dictionaries(shares, turns.map(tuple))),
        draw(st.dictionaries(shares, turns.map(tuple))),
        draw(st.dictionaries(shares, instants)),
    )


def naive_next(room: ProcessRoom) -> set[Share]:
    """The shares of which one must be next, by the words of the rule; empty: nobody may be."""
    wanting = {each for each in SHARES if room.pending.get(each) or room.waiting.get(each)}
    places = sum(places for _, places in room.launchers)
    reserve = sum(reserve_of(places) for _, places in room.launchers)
    taken = sum(room.held.values())
    by_name = {name: sum(n for each, n in room.held.items() if each.namespace == name) for name in "abc"}
    if taken >= places + reserve:
        return set()
    there = {name for name in by_name if by_name[name]} | {each.namespace for each in wanting}
    below = {each for each in wanting if by_name[each.namespace] < max(1, places // max(1, len(there)))}
    fitting = below or (wanting if taken < places else {each for each in wanting if not room.held.get(each)})
    if without := {each for each in fitting if not room.held.get(each)}:
        last = {
            name: max((at for s, at in room.served.items() if s.namespace == name), default=None) for name in by_name
        }
        oldest = min((last[each.namespace] or NOON - timedelta(days=1) for each in without), default=NOON)
        return {each for each in without if (last[each.namespace] or NOON - timedelta(days=1)) == oldest}
    fewest = min((by_name[each.namespace] for each in fitting), default=0)
    return {each for each in fitting if by_name[each.namespace] == fewest}


@given(room=rooms())
def test_the_next_place_goes_to_whom_the_rule_names(room: ProcessRoom) -> None:
    named = naive_next(room)

    found = room.next_shares(1)

    assert bool(found) == bool(named)
    assert set(found) <= named


@given(room=rooms(), at_most=st.integers(0, 30))
def test_places_are_given_one_after_another_and_never_more_than_there_are(room: ProcessRoom, at_most: int) -> None:
    given_places = room.next_shares(at_most)

    assert len(given_places) <= max(0, min(at_most, room.free_places))
    wanted = Counter({each: len(room.pending.get(each, ())) + len(room.waiting.get(each, ())) for each in SHARES})
    assert not Counter(given_places) - wanted
    for n in range(len(given_places)):
        assert room.next_shares(n) == given_places[:n]


@given(room=rooms(), share=shares)
def test_a_share_without_a_process_starts_one_in_the_reserve(room: ProcessRoom, share: Share) -> None:
    alone = replace(
        room, held={Share("a", "full"): room.places}, pending={share: (ShareTurn(NOON, "run"),)}, waiting={}
    )

    assert alone.next_shares(5) == (share,)


@given(room=rooms(), share=shares, low=st.integers(0, 49))
def test_within_a_share_the_earlier_turn_is_admitted_first(room: ProcessRoom, share: Share, low: int) -> None:
    earlier, later = ShareTurn(NOON + timedelta(minutes=low), "x"), ShareTurn(NOON + timedelta(minutes=low + 1), "x")

    assert room.admits(share, earlier) or not room.admits(share, later)


@given(room=rooms(), share=shares, at=instants)
def test_a_job_is_admitted_as_the_order_of_all_places_says(room: ProcessRoom, share: Share, at: datetime) -> None:
    """Also where all that is wanted fits, and the order is not asked; and after each admission as if read anew."""
    for _ in range(12):
        waiting = room.waiting.get(share, ())
        turn = waiting[-1] if waiting else ShareTurn(at, "new")
        before = sum(each < turn for each in waiting)

        assert room.admits(share, turn) == (before < anew(room).free_places_for(share))
        assert {each: room.free_places_for(each) for each in SHARES} == {
            each: anew(room).free_places_for(each) for each in SHARES
        }

        room = room.with_run(share, turn)


def anew(room: ProcessRoom) -> ProcessRoom:
    """The same, and nothing known of its order."""
    return replace(room)


def test_the_largest_number_of_places_holds_up_no_decision() -> None:
    """`STREAMSCHED_PROCESSES` at its largest, on a hundred launchers, and 100,000 jobs that wait."""
    turns = tuple(ShareTurn(NOON + timedelta(seconds=n), f"j{n}") for n in range(100_000))
    room = ProcessRoom(tuple((f"h{n}", MOST_SLOTS) for n in range(100)), waiting={SHARES[0]: turns})

    assert all(room.admits(share, turns[-1]) for share in SHARES)


@dataclass
class Launchers:
    """Runs start as the rule says and end in the order in which they started. `backlog`: what each share wants."""

    places: int
    backlog: Counter[Share]
    running: deque[Share]
    served: dict[Share, datetime]
    now: datetime = NOON

    def start(self) -> list[Share]:
        pending = {each: (ShareTurn(NOON, "run"),) * min(n, self.places + 2) for each, n in self.backlog.items() if n}
        room = ProcessRoom((("h", self.places),), Counter(self.running), pending, {}, self.served)
        started = list(room.next_shares(max(0, room.free_places)))
        for share in started:
            self.now += timedelta(seconds=1)
            self.served[share] = self.now
            self.backlog[share] -= 1
            self.running.append(share)
        return started


@given(
    places=st.integers(1, 8),
    backlog=st.dictionaries(shares, st.integers(1, 40), min_size=1),
)
def test_every_share_that_waits_is_served_after_a_bounded_number_of_ends(
    places: int, backlog: dict[Share, int]
) -> None:
    launchers = Launchers(places, Counter(backlog), deque(), {})
    last = dict.fromkeys(backlog, 0)
    ends = 0
    most = places + reserve_of(places)
    while launchers.running or sum(launchers.backlog.values()):
        for share in launchers.start():
            last[share] = ends
        assert len(launchers.running) <= most
        for share, count in launchers.backlog.items():
            holds = share in launchers.running
            assert not count or holds or ends - last[share] <= 2 * (most + len(SHARES))
        launchers.running.popleft()
        ends += 1
    assert not sum(launchers.backlog.values())
