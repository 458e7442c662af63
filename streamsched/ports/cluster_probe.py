"""Reads the load of one cluster."""

from __future__ import annotations

from typing import Protocol

from streamsched.domain.constraints.load import ClusterReading


class Probe(Protocol):
    """Reads the load of one cluster. Found by the scheme of its URL (`spark.clusters.open_probe`)."""

    async def read(self) -> ClusterReading:
        """Reads the free cores and memory of the cluster, and how many programs run.

        Raises:
            UnavailableError: no answer, or one of an unknown form.
        """
        ...
