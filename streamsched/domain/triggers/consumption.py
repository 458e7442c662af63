"""Consumption: what a satisfaction uses up of the accumulation."""

from __future__ import annotations

from enum import StrEnum


class Consumption(StrEnum):
    """What a job takes, and what remains.

    Under every policy a branch that holds stays so until the whole trigger fires, and one event may count in several
    leaves.
    """

    #: The job takes everything: 5 needed, 7 arrived, one job with 7.
    CUMULATIVE = "cumulative"

    #: The job takes the oldest, exactly the amount needed; the rest remains and may fire again at once: 2 needed, 6
    #: arrived, three jobs. Of alternatives that hold, the one written first is used. A commit is divided between jobs
    #: by partition, a stream's growth by byte; bytes and rows of a dataset by whole partitions.
    PAIRED = "paired"

    #: The job takes the newest, at most the amount needed; older events are dropped as newer ones arrive.
    LATEST = "latest"
