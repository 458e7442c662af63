"""Checks what definitions refer to in other namespaces, and stores what a caller's own roles permit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from streamsched.domain.access.grant import AccessVerdict, Caller, Denied
from streamsched.domain.access.references import (
    Publication,
    QueueUse,
    Reference,
    collect_names,
    find_foreign_references,
    judge_all,
)
from streamsched.domain.errors import ForbiddenError, UnavailableError
from streamsched.ports.clock import Clock
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore

#: How often a check is repeated when another namespace declares the same names at that time.
_TRIES: Final = 5


class ReferenceChecks:
    """Every way by which definitions come in asks this. Definitions that refer to nothing but their own namespace, and
    to no group or pool, cost no query.
    """

    def __init__(self, store: NamespaceGrantStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def check(
        self, caller: Caller, namespace: str, references: Iterable[Reference], *, dry_run: bool = False
    ) -> None:
        """Checks that the caller may let definitions of the namespace refer to these. Afterwards groups and pools that
        had no owner are the namespace's, and what the caller's own roles permit is granted; in a dry run nothing is
        stored.

        Raises:
            ForbiddenError: it may not; the message has the path of the field and what to ask for.
            ConflictError: a namespace has too many grants.
            QuotaExceededError: the namespace would own too many names of groups and pools.
        """
        listed = list(references)
        for each in listed:
            if isinstance(each, Publication):
                _require(each.path, caller.may_emit(each.event.namespace, each.event.name))
            elif isinstance(each, QueueUse):
                _require(each.path, caller.may_emit(None, each.queue))
        decided = find_foreign_references(listed, namespace)
        if not decided:
            return
        named, shared = collect_names(decided)
        for _ in range(_TRIES):
            known = await self._store.read_known(namespace, named, shared)
            verdict = await asyncio.to_thread(judge_all, decided, caller, namespace, known)
            if isinstance(verdict, Denied):
                raise ForbiddenError(verdict.reason)
            if dry_run:
                return
            if verdict:
                await self._store.record(verdict, now=self._clock.now())
            own = {each for each in shared if known.owners.get(each, namespace) == namespace}
            if not own or await self._store.claim(namespace, own, now=self._clock.now()) == len(own):
                return
        raise UnavailableError("groups and pools of these names are declared elsewhere at this moment; try again")


def _require(path: str, verdict: AccessVerdict) -> None:
    if isinstance(verdict, Denied):
        raise ForbiddenError(f"{path}: {verdict.reason}")
