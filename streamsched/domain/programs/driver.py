"""The driver of a run in a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of a run in a cluster: its name there, the cluster's URL, and where people read what it prints (empty
    until that is known).
    """

    id: str
    master: str
    logs: str = ""
