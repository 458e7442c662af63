"""All cases of a seed: number n is always the same, whatever other cases are drawn."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Final

from tests.hostile import (
    command_cases,
    definition_cases,
    event_cases,
    explicit_cases,
    program_cases,
    request_cases,
    row_cases,
)
from tests.hostile.case import Case, Maker

#: Ways in, and how often each is drawn.
_WAYS: Final[dict[str, tuple[Maker, int]]] = {
    "definition": (definition_cases.native, 24),
    "generated": (definition_cases.generated, 6),
    "update": (definition_cases.update, 4),
    "cdap": (definition_cases.cdap, 8),
    "setting": (definition_cases.setting, 5),
    "event": (event_cases.posted, 16),
    "cloudevent": (event_cases.binary, 3),
    "much": (event_cases.many, 2),
    "log": (event_cases.logged, 8),
    "internal": (event_cases.internal, 10),
    "address": (request_cases.address, 8),
    "body": (request_cases.body, 6),
    "row": (row_cases.damaged, 14),
    "http": (program_cases.http, 3),
    "bash": (program_cases.bash, 2),
    "publish": (program_cases.publish, 3),
    "plugin": (program_cases.plugin, 3),
    "file": (command_cases.deployed, 1),
    "command": (command_cases.asked, 1),
}


def case(seed: int, number: int, way: str | None = None) -> Case:
    """Case `number` of a seed; of one way in, if that is asked for. The first ones are the listed cases."""
    listed = explicit_cases.LISTED
    if way is None and number < len(listed):
        said, act, heavy = listed[number]
        return Case(number, "listed", said, act(f"h{number}"), heavy)
    rng = random.Random(f"{seed}-{number}")
    chosen = way or rng.choices(list(_WAYS), [weight for _, weight in _WAYS.values()])[0]
    said, act = _WAYS[chosen][0](f"h{number}", rng)
    return Case(number, chosen, said, act)


def cases(seed: int, count: int, *, way: str | None = None, heavy: bool = True, after: int = -1) -> Iterator[Case]:
    """The first `count` of a seed (of those with a number above `after`), each made when it is asked for; without
    `heavy`, those that are not."""
    made = (case(seed, number, way) for number in range(after + 1, after + 1 + count + len(explicit_cases.LISTED)))
    return itertools.islice((each for each in made if heavy or not each.heavy), count)


def ways() -> list[str]:
    """Their names."""
    return list(_WAYS)
