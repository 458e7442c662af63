"""Hypothesis' checks of a test's health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import HealthCheck

#: For machines and real parts, whose examples take long. Iterating leaves out the checks that are deprecated.
ALL_CHECKS: Final[Sequence[HealthCheck]] = [HealthCheck(each) for each in HealthCheck]
