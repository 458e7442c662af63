"""A few mutated events on an installation; `make fuzz-events` sends a million."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.codec import event as event_codec
from streamsched.domain.errors import DecodeError
from tests.fuzz.events import fuzz
from tests.fuzz.mutations import Mutations, corpus


def test_mutated_bytes_give_an_event_or_the_path_of_what_is_wrong() -> None:
    mutations = Mutations(7, corpus(7, 50))
    now = datetime.now(UTC)
    events, refused = [], []
    for _ in range(3_000):
        try:
            events.append(event_codec.decode(mutations.mutated(), fallback_id="f", fallback_time=now))
        except DecodeError as error:
            refused.append(error)

    assert all(error.path.startswith("$") and error.reason for error in refused)
    for event in events:
        assert event_codec.decode(event_codec.encode(event), fallback_id="g", fallback_time=now) == event
    assert len(events) > 50


@pytest.mark.long
async def test_mutated_events_are_accepted_or_refused_with_a_path_and_hold_up_nobody() -> None:
    found = await fuzz("postgres", 2_000, 7, [])

    assert found["wrong"] == {}
    assert found["accepted"] > 50
    assert found["dead_letters"] > 500
