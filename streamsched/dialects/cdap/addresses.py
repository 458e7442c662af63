"""Path parameters of CDAP's routes and the apps and programs they name."""

from __future__ import annotations

from typing import Annotated, Final

from streamsched.api.routing.calls import Depends
from streamsched.catalog.catalog import Catalog
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Program

#: CDAP's program categories in paths. Only workflows can be scheduled in CDAP, so every program here is one; `spark`
#: is accepted as a second name.
CATEGORIES: Final = ("workflows", "spark", "flows", "mapreduce", "services", "webapp", "workers")
SUPPORTED: Final = ("workflows", "spark")


async def _app(namespace: str, app: str) -> AppRef:
    return AppRef(namespace, app)


async def _schedule(namespace: str, app: str, schedule: str) -> ScheduleRef:
    return ScheduleRef(namespace, app, schedule)


AppDep = Annotated[AppRef, Depends(_app)]
ScheduleDep = Annotated[ScheduleRef, Depends(_schedule)]


async def find_program(catalog: Catalog, app: AppRef, category: str, name: str) -> Program:
    """The program of a path such as `workflows/join`.

    Raises:
        NotFoundError: no program has that name, or no program is of that category.
        InvalidError: CDAP has no such category.
    """
    check_category(category)
    ref = ProgramRef(app.namespace, app.app, name)
    if category not in SUPPORTED:
        raise NotFoundError("program", str(ref))
    return await catalog.reader.program(ref)


def check_category(category: str) -> None:
    """Checks a program category.

    Raises:
        InvalidError: CDAP has no such category.
    """
    if category not in CATEGORIES:
        raise InvalidError("$", f"Unknown category name '{category}'. Must be one of {','.join(CATEGORIES)}")
