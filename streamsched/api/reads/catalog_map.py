"""The links between datasets, programs and schedules that a person may see, read once for each state of the catalog."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from streamsched.domain.access.grant import EVERYWHERE, Caller
from streamsched.domain.access.permission import Permission
from streamsched.store.web.link_reads import MOST_LINKED, CatalogVersion, LinkReads, ScheduleLinks

#: Sets of namespaces whose links are kept at a time.
_MOST_KEPT: Final = 8


@dataclass(frozen=True, slots=True)
class Links:
    """Links of schedules in namespaces that a person may view.

    Attributes:
        listeners: by kind and id of a source, the schedules that wait for it.
        texts: the names of each schedule and of what it is linked to, for a search in any case.
        others: by kind and id of a source, how many schedules of other namespaces wait for it; of sources in the
            namespaces, and of those that schedules there wait for.
        whole: none is missing.
    """

    schedules: Mapping[str, ScheduleLinks] = field(default_factory=dict)
    listeners: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[tuple[str, str], int] = field(default_factory=dict)
    whole: bool = True

    def sources(self, kind: str, namespace: str | None) -> list[str]:
        """The ids of sources of a kind, in order; of a namespace when one is given."""
        prefix = "" if namespace is None else f"{namespace}."
        return sorted(
            name for of, name in self.listeners.keys() | self.others.keys() if of == kind and name.startswith(prefix)
        )


class CatalogMap:
    """Keeps the links of the last reads; memory grows with schedules, at most `MOST_LINKED` in each of a few sets of
    namespaces.
    """

    def __init__(self, reads: LinkReads) -> None:
        self.reads = reads
        self._version: CatalogVersion | None = None
        self._kept: dict[frozenset[str], Links] = {}
        self._lock = asyncio.Lock()

    async def links(self, caller: Caller) -> Links:
        """The links that the caller may see, as the catalog is now.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        namespaces = caller.namespaces(Permission.VIEW)
        async with self._lock:
            version = await self.reads.catalog_version()
            if version != self._version:
                self._kept, self._version = {}, version
            everything = await self._read(frozenset({EVERYWHERE}))
            return everything if EVERYWHERE in namespaces else await self._read(namespaces, everything)

    async def _read(self, namespaces: frozenset[str], everything: Links | None = None) -> Links:
        """The links of schedules in these namespaces. `everything`: the links of all, to count what is left out."""
        links = self._kept.get(namespaces)
        if links is None:
            found = await self.reads.links(None if everything is None else namespaces)
            links = await asyncio.to_thread(_link, found)
            if everything is not None:
                links = replace(links, others=_others(links, everything, namespaces))
            if len(self._kept) >= _MOST_KEPT:
                self._kept = {key: each for key, each in self._kept.items() if EVERYWHERE in key}
            self._kept[namespaces] = links
        return links


def _others(links: Links, everything: Links, namespaces: frozenset[str]) -> dict[tuple[str, str], int]:
    counted = {
        source: len(names) - len(links.listeners.get(source, ()))
        for source, names in everything.listeners.items()
        if source in links.listeners or source[1].partition(".")[0] in namespaces
    }
    return {source: count for source, count in counted.items() if count > 0}


def _link(found: Sequence[ScheduleLinks]) -> Links:
    listeners: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for each in found:
        runs[each.program].append(each.schedule)
        for source in each.listens:
            listeners[source].append(each.schedule)
    texts = {each.schedule: _names(each).casefold() for each in found}
    return Links(
        {each.schedule: each for each in found}, dict(listeners), dict(runs), texts, whole=len(found) < MOST_LINKED
    )


def _names(links: ScheduleLinks) -> str:
    return " ".join((links.schedule, links.program, *(name for _, name in links.listens)))
