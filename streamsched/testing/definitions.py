"""Hypothesis strategies for definitions: names, triggers, constraints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from streamsched.domain.event import Outcome
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.trigger import (
    AllOf,
    AnyOf,
    At,
    Cron,
    CustomEvent,
    Every,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Trigger,
)

_namespaces = st.sampled_from(["default", "prod_2"])
_names = st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True)
_dotted = st.sampled_from(["flights", "raw.flights", "$tmp", "a-b_c"])
_zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
_counts = st.integers(1, 9)

# Hypothesis wants naive bounds and adds the zone itself.
_FIRST, _LAST = datetime(2000, 1, 1), datetime(2040, 1, 1)  # noqa: DTZ001
instants = st.datetimes(_FIRST, _LAST, timezones=st.just(UTC))
apps = st.builds(AppRef, _namespaces, _names)
programs = st.builds(ProgramRef, _namespaces, _names, _names)
durations = st.timedeltas(timedelta(seconds=1), timedelta(days=400))

leaves: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(Cron, st.sampled_from(["* * * * *", "0 4 * * *", "*/15 9-17 * * MON-FRI", "30 0 0 1 JAN *"]), _zones),
    st.builds(Every, durations, st.none() | instants),
    st.builds(At, instants),
    st.builds(Partitions, st.builds(DatasetRef, _namespaces, _dotted), _counts),
    st.builds(StreamGrowth, st.builds(StreamRef, _namespaces, _dotted), st.integers(1, 1 << 50)),
    st.builds(ProgramStatus, programs, st.frozensets(st.sampled_from(Outcome), min_size=1), _counts),
    st.builds(CustomEvent, st.builds(EventName, _namespaces, _dotted), _counts),
)

triggers: st.SearchStrategy[Trigger] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=4).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=4).map(tuple)),
    ),
    max_leaves=12,
)
