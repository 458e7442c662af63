"""The number of Hypothesis examples of a property test: its own, unless the profile of the run overrides it."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

#: Profiles of `pytest --hypothesis-profile=…`: each test's own number; a third of it; the variable `EXAMPLES`, default
#: 1000; 10,000.
USUAL: Final = "usual"
SHORT: Final = "short"
ASKED: Final = "asked"
NIGHTLY: Final = "nightly"


def register_profiles() -> None:
    """Registers the profiles and loads the usual one."""
    settings.register_profile(USUAL, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    usual = settings.get_profile(USUAL)
    settings.register_profile(SHORT, usual, max_examples=_third(usual.max_examples))
    settings.register_profile(ASKED, usual, max_examples=int(os.environ.get("EXAMPLES", "1000")))
    settings.register_profile(NIGHTLY, usual, max_examples=10_000)
    settings.load_profile(USUAL)


def examples(usual: int, *, steps: int | None = None) -> settings:
    """The settings of one test, or, with `steps`, of a state machine."""
    profile = settings()
    counts = {USUAL: usual, SHORT: _third(usual)}
    count = counts.get(settings.get_current_profile_name(), profile.max_examples)
    if steps is None:
        return settings(profile, max_examples=count)
    return settings(profile, max_examples=count, stateful_step_count=steps)


def _third(count: int) -> int:
    return -(-count // 3)
