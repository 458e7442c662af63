"""The result of one check of an installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class CheckLevel(StrEnum):
    """Result of a check, in ascending severity."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: its subject, its result, the finding, and what to do unless it is ok."""

    check: str
    health: CheckLevel
    found: str
    advice: str = ""


def worst_level(findings: Sequence[CheckResult]) -> CheckLevel:
    """The worst of them."""
    order = list(CheckLevel)
    return max((each.health for each in findings), key=order.index, default=CheckLevel.OK)
