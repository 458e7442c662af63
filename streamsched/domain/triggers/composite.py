"""Composites: triggers over triggers. `&` and `|` compose; nesting has no limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_count

if TYPE_CHECKING:
    from streamsched.domain.triggers.trigger import Trigger


class Composable:
    """`&` and `|`, flattening like with like."""

    __slots__ = ()

    def __and__(self, other: Trigger) -> AllOf:
        if not isinstance(other, Composable):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
            return NotImplemented
        return AllOf(_children(AllOf, self) + _children(AllOf, other))

    def __or__(self, other: Trigger) -> AnyOf:
        if not isinstance(other, Composable):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
            return NotImplemented
        return AnyOf(_children(AnyOf, self) + _children(AnyOf, other))


def _children(kind: type, trigger: object) -> tuple[Trigger, ...]:
    flat = isinstance(trigger, kind) and not getattr(trigger, "mixed_runs", False)
    return trigger.triggers if flat else (trigger,)  # type: ignore[attr-defined, return-value]


def at_least_one(name: str, value: int) -> None:
    """Raises:
    InvalidDefinitionError: the value of the field is smaller, or too large to be stored.
    """
    check_count(value, f"$.{name}")


@dataclass(frozen=True, slots=True)
class AllOf(Composable):
    """Every child holds.

    Attributes:
        mixed_runs: it was said that ends of programs join whatever runs they descend from, as they do without `Per`; a
            deployment chooses no ancestor (`domain.triggers.run_joins`).
    """

    triggers: tuple[Trigger, ...]
    mixed_runs: bool = False

    def __post_init__(self) -> None:
        if not self.triggers:
            raise InvalidDefinitionError("$.triggers", "must name at least one trigger")

    def __str__(self) -> str:
        text = " and ".join(f"({t})" if isinstance(t, AnyOf) else str(t) for t in self.triggers)
        return f"({text}) of any runs" if self.mixed_runs else text


@dataclass(frozen=True, slots=True)
class AnyOf(Composable):
    """At least one child holds."""

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        if not self.triggers:
            raise InvalidDefinitionError("$.triggers", "must name at least one trigger")

    def __str__(self) -> str:
        return " or ".join(f"({t})" if isinstance(t, AllOf) else str(t) for t in self.triggers)


@dataclass(frozen=True, slots=True)
class AtLeast(Composable):
    """`count` of the children hold; one that is named twice counts twice."""

    count: int
    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        at_least_one("count", self.count)
        if self.count > len(self.triggers):
            raise InvalidDefinitionError(
                "$.count", f"is {self.count}, but there are only {len(self.triggers)} triggers: it could never hold"
            )

    def __str__(self) -> str:
        return f"at least {self.count} of ({', '.join(map(str, self.triggers))})"
