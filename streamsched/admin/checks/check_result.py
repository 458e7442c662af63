"""The result of one check of an installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text


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


FINDING: Final = JsonShape(
    CheckResult, "Finding", about={"check": About("clocks"), "advice": About(schema=any_text(""))}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All checks. `health`: the worst."""

    health: CheckLevel
    findings: Annotated[Sequence[CheckResult], About(shape=FINDING)]


CHECKS: Final = JsonShape(CheckReport, "Checks")


def worst_level(findings: Sequence[CheckResult]) -> CheckLevel:
    """The worst of them."""
    order = list(CheckLevel)
    return max((each.health for each in findings), key=order.index, default=CheckLevel.OK)
