"""State machines, as values: jobs, runs, tasks, nodes and backfills have one each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from streamsched.domain.errors import IllegalTransitionError

S = TypeVar("S", bound=StrEnum)
F = TypeVar("F", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class StateMachine(Generic[S, F]):
    """The states of one kind of thing, and the facts that lead from one to the next. `docs/reference/states.md` draws
    it. The first state is the first of `S`.

    Attributes:
        noun: the kind of thing, in errors.
        table: the state after a fact, by the state before it. There are no other transitions.
        ends: the states in which the thing has ended. Only a node may leave one: it can be asked for again.
    """

    noun: str
    table: Mapping[tuple[S, F], S]
    ends: frozenset[S]

    def advance(self, state: S, fact: F) -> S:
        """The state after `fact`.

        Raises:
            IllegalTransitionError: the table has no such row; nothing changed.
        """
        try:
            return self.table[state, fact]
        except KeyError:
            raise IllegalTransitionError(self.noun, state, fact) from None
