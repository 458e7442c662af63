"""The links between datasets, programs and schedules, read once for each state of the catalog."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamsched.ports.web.link_reads import MOST_LINKED, CatalogVersion, LinkReads, ScheduleLinks


@dataclass(frozen=True, slots=True)
class Links:
    """All links.

    Attributes:
        listeners: by kind and id of a source, the schedules that wait for it.
        texts: the names of each schedule and of what it is linked to, for a search in any case.
        whole: none is missing.
    """

    schedules: Mapping[str, ScheduleLinks] = field(default_factory=dict)
    listeners: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True

    def sources(self, kind: str, namespace: str | None) -> list[str]:
        """The ids of sources of a kind, in order; of a namespace when one is given."""
        prefix = "" if namespace is None else f"{namespace}."
        return sorted(name for of, name in self.listeners if of == kind and name.startswith(prefix))


class CatalogMap:
    """Keeps the links of the last read; memory grows with schedules, at most `MOST_LINKED`."""

    def __init__(self, reads: LinkReads) -> None:
        self.reads = reads
        self._version: CatalogVersion | None = None
        self._links = Links()
        self._lock = asyncio.Lock()

    async def links(self) -> Links:
        """The links as the catalog is now.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        async with self._lock:
            version = await self.reads.catalog_version()
            if version != self._version:
                found = await self.reads.links()
                self._links = await asyncio.to_thread(_linked, found)
                self._version = version
            return self._links


def _linked(found: Sequence[ScheduleLinks]) -> Links:
    listeners: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for each in found:
        runs[each.program].append(each.schedule)
        for source in each.listens:
            listeners[source].append(each.schedule)
    texts = {each.schedule: _names(each).casefold() for each in found}
    return Links({each.schedule: each for each in found}, dict(listeners), dict(runs), texts, len(found) < MOST_LINKED)


def _names(links: ScheduleLinks) -> str:
    return " ".join((links.schedule, links.program, *(name for _, name in links.listens)))
