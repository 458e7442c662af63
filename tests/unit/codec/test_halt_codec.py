"""Why a schedule is in error, there and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import halt as halt_codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.fold.halt import Halt

INSTANTS = st.integers(0, 1 << 32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
COUNTS = st.integers(0, 1 << 40)


@given(
    st.builds(
        Halt,
        kind=WORDS,
        message=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
        signal=WORDS,
        at=INSTANTS,
        generation=COUNTS,
        release=WORDS,
        first=COUNTS,
        parked=COUNTS,
        attempts=COUNTS,
        judged_from=st.none() | INSTANTS,
    )
)
def test_a_halt_comes_back_as_it_was(halt: Halt) -> None:
    assert halt_codec.decode(halt_codec.encode(halt)) == halt


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"v":2}', b'{"v":1,"kind":"E"}'])
def test_what_is_no_halt_says_where(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        halt_codec.decode(raw)
