"""The plan of who holds what: balanced, sticky, the same for all who see the same."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streamsched.membership.plan import plan

names = st.sets(st.sampled_from([f"shard-{n:04d}" for n in range(20)]), min_size=1)
workers = st.sets(st.sampled_from("abcdefg"), min_size=1)


@st.composite
def pictures(draw: st.DrawFn) -> tuple[set[str], set[str], dict[str, str]]:
    shards = draw(names)
    return shards, draw(workers), draw(st.dictionaries(st.sampled_from(sorted(shards)), st.sampled_from("abcdefgxyz")))


@given(pictures())
def test_every_name_has_one_living_worker_and_none_has_two_more_than_another(
    picture: tuple[set[str], set[str], dict[str, str]],
) -> None:
    shards, alive, held = picture

    planned = plan(shards, alive, held)

    load = Counter(dict.fromkeys(alive, 0)) + Counter()
    load.update(planned.values())
    counts = [load[worker] for worker in alive]
    assert set(planned) == shards
    assert set(planned.values()) <= alive
    assert max(counts) - min(counts) <= 1


@given(pictures())
def test_the_plan_is_stable_once_it_is_carried_out(picture: tuple[set[str], set[str], dict[str, str]]) -> None:
    shards, alive, held = picture

    planned = plan(shards, alive, held)

    assert plan(shards, alive, planned) == planned


@given(pictures())
def test_no_more_names_move_than_balance_asks_for(picture: tuple[set[str], set[str], dict[str, str]]) -> None:
    shards, alive, held = picture
    live = {name: worker for name, worker in held.items() if worker in alive}

    moved = sum(plan(shards, alive, held)[name] != worker for name, worker in live.items())

    load = sorted((Counter(live.values())[worker] for worker in alive), reverse=True)
    share, extra = divmod(len(shards), len(alive))
    assert moved == sum(max(0, have - share - (rank < extra)) for rank, have in enumerate(load))


@given(pictures(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_seen_does_not_matter(
    picture: tuple[set[str], set[str], dict[str, str]], random: object
) -> None:
    shards, alive, held = picture
    shuffled = list(shards), list(alive), list(held.items())
    for each in shuffled:
        random.shuffle(each)  # type: ignore[attr-defined]

    assert plan(shuffled[0], shuffled[1], dict(shuffled[2])) == plan(shards, alive, held)


def test_without_live_workers_no_shard_is_held() -> None:
    assert plan(["a"], [], {"a": "gone"}) == {}
