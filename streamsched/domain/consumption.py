"""What a satisfaction uses up of what has come."""

from __future__ import annotations

from enum import StrEnum


class Consumption(StrEnum):
    """How much goes with a job, and what stays.

    In each of them a branch that holds goes on holding until the whole fires, and one event may count in many leaves.
    """

    #: Everything that has come goes with the job: 5 wanted, 7 came, one job told of 7.
    CUMULATIVE = "cumulative"

    #: The oldest, exactly as much as was asked; the rest stays and may fire again at once: 2 wanted, 6 came, three
    #: jobs. Of alternatives that hold, the one written first is used; what is not used stays. A commit is divided
    #: between jobs partition by partition, a stream's growth byte by byte; bytes and rows of a dataset by whole
    #: partitions.
    PAIRED = "paired"

    #: The newest, no more than was asked; older ones are dropped as newer ones come. The job has what every leaf has.
    LATEST = "latest"
