"""What is given a run's end can be stored, shown and sent, whatever its program wrote."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.jobs.run import RunState
from streamsched.ports.runs import RunEnd

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reported(reason: str) -> str:
    return RunEnd(RunState.FAILED, reason, NOW).reason


@given(st.text(st.characters(), max_size=50))
def test_a_reason_is_text_of_the_same_length_without_control_characters(reason: str) -> None:
    kept = reported(reason)

    assert len(kept) == len(reason)
    assert orjson.loads(orjson.dumps(kept)) == kept
    assert all(each in "\t\n" or each.isprintable() or ord(each) >= 0x80 for each in kept)
    assert all(new in (old, "\ufffd") for old, new in zip(reason, kept, strict=True))


def test_what_cannot_be_kept_is_seen_to_be_missing() -> None:
    assert reported("one\n\ttwo\0 \x1b[1mthree \udcff") == "one\n\ttwo\ufffd \ufffd[1mthree \ufffd"
