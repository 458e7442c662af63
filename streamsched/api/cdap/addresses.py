"""What CDAP's addresses name."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends

from streamsched.catalog.catalog import Catalog
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import Program
from streamsched.ports.catalog import ScheduleStatus

#: CDAP's words for kinds of programs in addresses. Those of ours are all schedulable: workflows, by CDAP's lights.
_CATEGORIES: Final = ("workflows", "spark", "flows", "mapreduce", "services", "webapp", "workers")
_OURS: Final = ("workflows", "spark")


def _app(namespace: str, app: str) -> AppRef:
    return AppRef(namespace, app)


def _schedule(namespace: str, app: str, schedule: str) -> ScheduleRef:
    return ScheduleRef(namespace, app, schedule)


AppDep = Annotated[AppRef, Depends(_app)]
ScheduleDep = Annotated[ScheduleRef, Depends(_schedule)]


async def find_app(catalog: Catalog, ref: AppRef) -> list[ScheduleStatus]:
    """The schedules of an app, by name.

    Raises:
        NotFoundError: there is no such app: it has neither schedules nor programs.
    """
    found = await catalog.list(app=ref)
    if not found and not await catalog.programs(app=ref):
        raise NotFoundError("application", str(ref))
    return sorted(found, key=lambda status: status.record.definition.ref.name)


async def find_program(catalog: Catalog, app: AppRef, category: str, name: str) -> Program:
    """A program by CDAP's address, `workflows/join`.

    Raises:
        NotFoundError: there is none of that name, or not of that category.
        InvalidError: CDAP has no such category.
    """
    check_category(category)
    ref = ProgramRef(app.namespace, app.app, name)
    if category not in _OURS:
        raise NotFoundError("program", str(ref))
    return await catalog.program(ref)


def check_category(category: str) -> None:
    """Raises:
    InvalidError: CDAP has no programs of that category.
    """
    if category not in _CATEGORIES:
        raise InvalidError("$", f"Unknown category name '{category}'. Must be one of {','.join(_CATEGORIES)}")
