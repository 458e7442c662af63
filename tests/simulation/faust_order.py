"""What in Faust would come out otherwise from run to run: sets ordered by addresses in memory, and the machine's clock.

The whole Faust app of a shard runs in the simulation, nothing of it is replaced. It is only reported how its objects
hash and what time it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from unittest.mock import patch

import faust
import mode


@contextmanager
def in_order(time: Callable[[], float]) -> Iterator[None]:
    """Services and channels hash by the order in which they were first asked; Faust's timers go by `time`."""
    numbers = count(1)

    def numbered(self: object) -> int:
        number: int | None = vars(self).get("_simulation_number")
        if number is None:
            number = vars(self)["_simulation_number"] = next(numbers)
        return number

    with ExitStack() as stack:
        for kind in (mode.Service, faust.Channel):
            stack.enter_context(patch.object(kind, "__hash__", numbered))
        stack.enter_context(patch.dict(mode.Service.itertimer.__kwdefaults__ or {}, clock=time))
        yield
