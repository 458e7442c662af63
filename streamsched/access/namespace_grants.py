"""What owners of namespaces decide about uses by others. Who refuses, or takes a grant back, suspends the schedules
that rely on it: they are paused and keep what they have accumulated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from streamsched.catalog.catalog import Catalog
from streamsched.domain.access.grant import Denied
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind, covering_grant
from streamsched.domain.access.references import (
    WITHOUT_ROLES,
    Reference,
    collect_names,
    expectation_references,
    find_foreign_references,
    is_used,
    judge_all,
    schedule_references,
)
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.ports.clock import Clock
from streamsched.store.catalog.app_expectations import ExpectationGrants
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore

#: Schedules of the other namespace that are read at a time.
_PAGE: Final = 500


class GrantDesk:
    """Decisions of owners. Whether the caller may decide is checked before."""

    def __init__(
        self, store: NamespaceGrantStore, catalog: Catalog, expectations: ExpectationGrants, clock: Clock
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._expectations = expectations
        self._clock = clock

    async def list_of(
        self, namespace: str, *, after: tuple[str, str, str, str] | None, limit: int
    ) -> Sequence[NamespaceGrant]:
        """Those that the namespace has given and those that it has, ordered by owner, kind, name and grantee."""
        return await self._store.list_of(namespace, after=after, limit=limit)

    async def list_pending(self, *, limit: int) -> Sequence[NamespaceGrant]:
        """The first of all namespaces that wait for a decision."""
        return await self._store.list_pending(limit=limit)

    async def grants_used_by(self, schedule: Schedule) -> Sequence[NamespaceGrant]:
        """The grants that a schedule relies on, and refusals and pending ones; asks only about other namespaces."""
        references = find_foreign_references(schedule_references(schedule), schedule.ref.namespace)
        if not references:
            return ()
        known = await self._store.read_known(schedule.ref.namespace, *collect_names(references))
        found: dict[tuple[str, str, str], NamespaceGrant] = {}
        for each in references:
            grant = covering_grant(each.kind, each.name, known.grants.get(known.owner(each) or "", ()))
            if grant is not None:
                found[grant.owner, grant.kind, grant.name] = grant
        return [found[each] for each in sorted(found)]

    async def decide(self, grant: NamespaceGrant) -> Sequence[ScheduleRef]:
        """Stores or replaces a grant. Returns the schedules that a refusal, or the loss of details, has suspended.

        Raises:
            ConflictError: a namespace would give or have too many.
        """
        await self._store.record([grant], now=self._clock.now())
        if grant.state is GrantState.REFUSED:
            return await self._suspend(grant, f"refused by {grant.by}")
        narrowed = grant.kind is SharedKind.PROGRAM and not grant.details
        return await self._suspend(grant, f"restricted by {grant.by}") if narrowed else ()

    async def remove(self, grant: NamespaceGrant) -> tuple[NamespaceGrant, Sequence[ScheduleRef]]:
        """Takes back the grant with the owner, kind, name and grantee of this one. Returns what it was, and the
        schedules that this has suspended.

        Raises:
            NotFoundError: there is none.
        """
        former = await self._store.remove(grant, now=self._clock.now())
        return former, await self._suspend(grant, f"taken back by {grant.by}")

    async def hand_over(self, kind: SharedKind, name: str, namespace: str) -> None:
        """Makes the namespace the owner of a group or pool."""
        await self._store.hand_over(kind, name, namespace, now=self._clock.now())

    async def _suspend(self, grant: NamespaceGrant, decision: str) -> Sequence[ScheduleRef]:
        why = f": {grant.reason}" if grant.reason else ""
        note = f"the use of {grant.kind} {grant.name} of namespace {grant.owner} was {decision}{why}"
        suspended: list[ScheduleRef] = []
        if grant.kind is SharedKind.DATASET:
            about = await self._expectations.list_foreign(grant.grantee, grant.owner)
            ended = [each.ref for each in about if await self._lacks(expectation_references(each), grant.grantee)]
            if ended:
                await self._expectations.stop(ended, note)
        async for record in self._users_of(grant):
            ref = record.definition.ref
            try:
                await self._catalog.pause(ref, Pause(PauseMode.KEEP, note=note), reason=note).apply()
            except (ConflictError, NotFoundError):  # it is paused so already, or was deleted meanwhile
                continue
            suspended.append(ref)
        return suspended

    async def _users_of(self, grant: NamespaceGrant) -> AsyncIterator[ScheduleRecord]:
        """Schedules that may run, now or after the end of a pause, and that no other grant permits to."""
        after = ""
        while page := await self._catalog.reader.schedules(namespace=grant.grantee, after=after, limit=_PAGE):
            after = str(page[-1].record.definition.ref)
            for record in (status.record for status in page):
                ends = record.pause is not None and record.pause.until is not None
                definition = record.definition
                used = (record.enabled or ends) and is_used(grant, definition)
                if used and await self._lacks(schedule_references(definition), grant.grantee):
                    yield record

    async def _lacks(self, named: Iterable[Reference], namespace: str) -> bool:
        references = find_foreign_references(named, namespace)
        known = await self._store.read_known(namespace, *collect_names(references))
        return isinstance(judge_all(references, WITHOUT_ROLES, namespace, known), Denied)
