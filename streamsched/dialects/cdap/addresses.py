"""Path parameters of CDAP's routes, the apps and programs they name, and programs that a body lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Final, NamedTuple

from streamsched.api.body import decode_body
from streamsched.api.bounds.request_limits import PROGRAMS
from streamsched.api.routing.calls import Depends
from streamsched.catalog.catalog import Catalog
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads, sequence
from streamsched.codec.problem import status_of
from streamsched.dialects.cdap.dialect import message
from streamsched.domain.errors import InvalidError, NotFoundError, StreamschedError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Program

#: CDAP's program categories in paths. Only workflows can be scheduled in CDAP, so every program here is one; `spark`
#: is accepted as a second name.
CATEGORIES: Final = ("workflows", "spark", "flows", "mapreduce", "services", "webapp", "workers")
SUPPORTED: Final = ("workflows", "spark")
#: `programType` in a body and the program category of a path.
_CATEGORIES_OF_TYPES: Final = {
    "FLOW": "flows",
    "MAPREDUCE": "mapreduce",
    "SERVICE": "services",
    "SPARK": "spark",
    "WEBAPP": "webapp",
    "WORKER": "workers",
    "WORKFLOW": "workflows",
}
_MEMBERS: Final = ("appId", "programType", "programId")


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
        InvalidError: CDAP has no such category, or it is no name.
    """
    return await catalog.reader.program(program_named(app, category, name))


def program_named(app: AppRef, category: str, name: str) -> ProgramRef:
    """The program of a path such as `workflows/join`, which may not exist.

    Raises:
        NotFoundError: no program is of that category.
        InvalidError: CDAP has no such category, or it is no name.
    """
    check_category(category)
    ref = ProgramRef(app.namespace, app.app, name)
    if category not in SUPPORTED:
        raise NotFoundError("program", str(ref))
    return ref


def check_category(category: str) -> None:
    """Checks a program category.

    Raises:
        InvalidError: CDAP has no such category.
    """
    if category not in CATEGORIES:
        raise InvalidError("$", f"Unknown category name '{category}'. Must be one of {','.join(CATEGORIES)}")


class ListedProgram(NamedTuple):
    """An element of a body `[{"appId", "programType", "programId", …}, …]`: as it came, its path, and the program it
    names, which may not exist, or what is wrong with it.
    """

    given: Json
    path: str
    ref: ProgramRef | StreamschedError

    @property
    def program(self) -> ProgramRef:
        """The program that it names.

        Raises:
            StreamschedError: it names none.
        """
        if isinstance(self.ref, StreamschedError):
            raise self.ref
        return self.ref

    def answer(self, **members: Any) -> dict[str, Any]:
        """Its part of the answer to a batch that went well."""
        return {**self._members, "statusCode": 200, **members}

    def refusal(self, error: StreamschedError) -> dict[str, Any]:
        """Its part of the answer, when it failed."""
        return {**self._members, "statusCode": int(status_of(error)), "error": message(error)}

    @property
    def _members(self) -> dict[str, Any]:
        given = self.given if isinstance(self.given, dict) else {}
        return {name: text for name in _MEMBERS if isinstance(text := given.get(name), str)}


async def answer_each(
    asked: Iterable[ListedProgram], answer: Callable[[ListedProgram], Awaitable[list[dict[str, Any]]]]
) -> list[dict[str, Any]]:
    """The answers for each program in order; one that fails hinders no other."""
    found: list[dict[str, Any]] = []
    for each in asked:
        try:
            found += await answer(each)
        except StreamschedError as exc:
            found.append(each.refusal(exc))
    return found


def named_programs(asked: Iterable[ListedProgram]) -> list[ProgramRef]:
    """Those that elements name, as often as they do."""
    return [each.ref for each in asked if isinstance(each.ref, ProgramRef)]


async def read_programs(namespace: str, body: bytes) -> list[ListedProgram]:
    """The programs that a body lists. What is wrong with an element is its own matter.

    Raises:
        DecodeError: it is no list.
        HTTPException: 413, it is too long.
    """
    elements = sequence(await decode_body(body, loads), "$")
    PROGRAMS.check_elements(len(elements))
    paths = [member_path("$", index) for index in range(len(elements))]
    return [
        ListedProgram(each, path, _read_program(namespace, each, path))
        for each, path in zip(elements, paths, strict=True)
    ]


def _read_program(namespace: str, element: object, path: str) -> ProgramRef | StreamschedError:
    try:
        fields = Fields(element, path)
        app, kind = AppRef(namespace, fields.text("appId")), fields.text("programType")
        return program_named(app, _CATEGORIES_OF_TYPES.get(kind.upper(), kind), fields.text("programId"))
    except StreamschedError as exc:
        return exc
