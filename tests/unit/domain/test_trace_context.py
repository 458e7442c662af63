"""W3C Trace Context: what is read of a `traceparent`, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.events.sampler import Sampler
from streamsched.domain.events.trace_context import TraceContext, canonical, parse_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"00-{TRACE}-{SPAN}-01", TraceContext(TRACE, SPAN, True)),
        (f" 00-{TRACE}-{SPAN}-01\t", TraceContext(TRACE, SPAN, True)),
        (f"00-{TRACE}-{SPAN}-00", TraceContext(TRACE, SPAN, False)),
        (f"00-{TRACE}-{SPAN}-fe", TraceContext(TRACE, SPAN, False)),
        (f"00-{TRACE}-{SPAN}-03", TraceContext(TRACE, SPAN, True)),
        (f"cc-{TRACE}-{SPAN}-01", TraceContext(TRACE, SPAN, True)),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", TraceContext(TRACE, SPAN, True)),
    ],
)
def test_a_context_is_read(text: str, found: TraceContext) -> None:
    assert parse_traceparent(text) == found


@pytest.mark.parametrize(
    "value",
    [
        "",
        None,
        7,
        [f"00-{TRACE}-{SPAN}-01"],
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"cc-{TRACE}-{SPAN}-01.what",
        f"00-{TRACE[:-1]}٠-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        "0" * 1_000_000,
    ],
)
def test_a_malformed_one_is_ignored(value: object) -> None:
    assert parse_traceparent(value) is None
    assert canonical(value) is None


@given(st.text(max_size=80))
def test_no_text_is_an_error_and_a_canonical_one_is_stable(text: str) -> None:
    found = canonical(text)
    assert found is None or (len(found) == 55 and canonical(found) == found)


@given(st.integers(1, 2**128 - 1), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_ratio_samples_whatever_a_smaller_one_does(trace: int, one: float, other: float) -> None:
    less, more = sorted((one, other))
    name = f"{trace:032x}"
    assert not Sampler(less).samples(name, None) or Sampler(more).samples(name, None)
    assert Sampler(1.0).samples(name, None)
    assert not Sampler(0.0).samples(name, None)


def test_a_parent_decides_unless_the_sampler_does_not_ask_it() -> None:
    parent = TraceContext(TRACE, SPAN, sampled=False)
    assert not Sampler(1.0).samples(TRACE, parent)
    assert Sampler(1.0, by_parent=False).samples(TRACE, parent)
