"""What the body of a request may hold. A route says which of these limits is its own. It is counted before it is
decoded, its elements before they are worked on (ADR 33).

| limit | of | status |
|---|---|---|
| bytes | a body; `STREAMSCHED_BODY_LIMIT` | 413 |
| values | texts, numbers, lists, objects, … at all depths of a body | 413 |
| levels | lists and objects inside each other (`codec.json.scalar.DEEPEST`) | 400 |
| elements | the list that a body is | 413 |
| the bodies of all requests of a process together (`api.bounds.body_room`) | | 503 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException

from streamsched.codec.json.size import values_in
from streamsched.domain.graph.task import MOST_VALUES
from streamsched.domain.tasks.queue import MOST_TASKS

#: Refused elements that an answer names; it counts the others.
MOST_LISTED: Final = 1000
#: Schedules whose ticks one answer has.
MOST_TICKING: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimit:
    """What the body of a route may hold.

    Attributes:
        values: JSON values of all depths; an empty list or object counts twice.
        elements: of the list that the body is; None: it is no list.
        weight: how many ordinary values one of these costs in memory.
    """

    values: int = 20_000
    elements: int | None = None
    weight: int = 1

    def check_values(self, body: bytes) -> int:
        """The number of values, about.

        Raises:
            HTTPException: 413, there are more.
        """
        found = values_in(body, most=self.values)
        if found > self.values:
            raise HTTPException(413, f"the body has more than {self.values:,} JSON values; send fewer in each request")
        return found

    def check_elements(self, found: int) -> None:
        """Raises:
        HTTPException: 413, a list with so many elements is too long.
        """
        if self.elements is not None and found > self.elements:
            raise HTTPException(413, f"the list has {found:,} elements; send at most {self.elements:,} in each request")


ORDINARY: Final = RequestLimit()
EVENTS: Final = RequestLimit(values=500_000, elements=10_000)
#: Of a request for the ticks of programs.
PROGRAMS: Final = RequestLimit(elements=1000)
TASKS: Final = RequestLimit(values=200_000, elements=MOST_TASKS)
#: An app with 20,000 schedules, which is compared with all of the stored one.
APP: Final = RequestLimit(values=200_000, weight=10)
#: A list of as many job ids as a request may name, or a definition with lists.
LISTS: Final = RequestLimit(values=2 * MOST_VALUES)

#: The most values of any body.
MOST_IN_A_BODY: Final = 500_000
