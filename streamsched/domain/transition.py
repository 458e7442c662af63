"""Transition tables: what all state machines do with theirs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from streamsched.domain.errors import IllegalTransitionError

S = TypeVar("S", bound=StrEnum)
F = TypeVar("F", bound=StrEnum)


def following(machine: str, table: Mapping[tuple[S, F], S], state: S, fact: F) -> S:
    """The state after `fact`. `machine` names it in the error.

    Raises:
        IllegalTransitionError: the table has no such row; nothing changed.
    """
    try:
        return table[state, fact]
    except KeyError:
        raise IllegalTransitionError(machine, state, fact) from None
