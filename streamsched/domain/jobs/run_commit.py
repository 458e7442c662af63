"""What a run has committed to a dataset, as the announcement says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.names import DatasetRef

#: Partitions in one event. A commit of more becomes several events, so that each fits into a record of the log; all but
#: the last have so many.
MOST_PARTITIONS: Final = 2000
#: The most commits that are stored of one run; the first are kept.
MOST_COMMITS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommit:
    """One commit of a run, or a part of one with thousands of partitions.

    Attributes:
        run: the run's id; of a run without a job also with a second attempt at its end.
        commit: the id of its event.
        at: when it was committed, UTC.
        rows, bytes: of its named partitions, as far as they are known; at most `domain.limits.MOST`.
    """

    run: str
    commit: str
    dataset: DatasetRef
    at: datetime
    partitions: int
    rows: int
    bytes: int
