"""What the client returns, beside shapes of `streamsched.wire`, which have all members of an answer. Here `data` is the
whole answer of the API as JSON; the attributes are its most used members, with names and times as Python's. Times are
UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Decision:
    """What happened to a job or a run.

    Attributes:
        number: grows with each decision; `after` of a later reading.
        action: such as `job.waits`; `reason`: why.
        state: that the job or run has entered; None: it stays as it was.
    """

    number: int
    at: datetime
    subject: str
    action: str
    state: str | None
    reason: str
    schedule: str | None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        made = datetime.fromisoformat(data["at"])
        return cls(
            data["number"], made, data["subject"], data["action"], data["state"], data["reason"], data["schedule"], data
        )
