"""Many schedules of CDAP at once: a list of `ScheduleDetail`, as the REST API returns it, or one alone.

    [{"namespace", "application", "name", "program": {…}, "trigger": {…}, …}, …]     or     {"schedules": […]}

Each application becomes an app. The JSON of schedules does not have the programs, so each is a placeholder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import orjson

from streamsched.codec.cdap import schedule as schedules
from streamsched.codec.json.reading import Fields
from streamsched.codec.moving.draft import AppDraft, Imported, Report, placeholder
from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import ProgramStatus, leaves

#: Bytes of a document, and schedules in it.
LARGEST: Final = 64 * 1024 * 1024
MOST: Final = 100_000
_NAMES: Final = frozenset({"namespace", "application", "name"})


def schedules_from_json(raw: bytes, *, namespace: str = "") -> Imported:
    """The apps of the schedules in a document. A schedule that is not understood is left out, with a note.

    `namespace`: of the apps; empty: that of each schedule.

    Raises:
        DecodeError: it is too large, no JSON, or no list of schedules.
    """
    report, drafts = Report(), dict[AppRef, AppDraft]()
    for item, path in _items(raw):
        try:
            schedule = _schedule(item, path, namespace)
        except InvalidError as exc:
            report.cannot(exc.path if exc.path.startswith(path) else path, exc.reason)
            continue
        draft = drafts.setdefault(schedule.ref.owner, AppDraft(schedule.ref.owner, report))
        _add(draft, schedule, path, enabled=_enabled(item))
    for path in ("all",) if drafts else ():
        report.cannot(path, "what the programs do: each is a placeholder that fails until it is replaced")
        report.differs(path, "a time without a zone is UTC here; in CDAP it is in the zone of its server")
    if not drafts and not report.notes:
        report.cannot("all", "no schedule was found")
    return Imported(tuple(draft.document() for draft in drafts.values()), tuple(report.notes))


def _items(raw: bytes) -> Iterator[tuple[object, str]]:
    if len(raw) > LARGEST:
        raise DecodeError("$", f"has {len(raw)} bytes, the most are {LARGEST}")
    try:
        document: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise DecodeError("$", f"is not valid JSON: {exc}") from exc
    path = "$"
    if isinstance(document, dict):
        found = cast("dict[str, Any]", document)
        if "schedules" not in found:
            yield found, "$"
            return
        document, path = found["schedules"], "$.schedules"
    if not isinstance(document, list):
        raise DecodeError(path, "is not a list of schedules")
    items = cast("list[object]", document)
    if len(items) > MOST:
        raise DecodeError(path, f"has {len(items)} schedules, the most are {MOST}")
    for index, item in enumerate(items):
        yield item, f"{path}[{index}]"


def _schedule(item: object, path: str, namespace: str) -> Schedule:
    fields = Fields(item, path)
    app, name = fields.text("application"), fields.text("name")
    space = namespace or fields.optional_text("namespace") or DEFAULT_NAMESPACE
    return schedules.from_json(item, ScheduleRef(space, app, name), path)


def _enabled(item: object) -> bool:
    status = cast("dict[str, Any]", item).get("status") or cast("dict[str, Any]", item).get("scheduleStatus")
    return status != "SUSPENDED"


def _add(draft: AppDraft, schedule: Schedule, path: str, *, enabled: bool) -> None:
    own = {leaf.program for leaf in leaves(schedule.trigger) if isinstance(leaf, ProgramStatus)}
    for program in sorted({schedule.program, *(each for each in own if each.owner == draft.ref)}):
        if program.name not in draft.programs:
            what = f"CDAP's {program.name} of application {program.app}"
            draft.add_program(program.name, placeholder(what), path)
    if schedule.ref.name in draft.schedules:
        draft.report.cannot(f"{path}.name", f"schedule '{schedule.ref.name}' is listed twice")
        return
    definition = {name: value for name, value in schedule_to_json(schedule).items() if name not in _NAMES}
    stated = {name: value for name, value in definition.items() if value not in (None, "", [], {})}
    if draft.add_schedule(schedule.ref.name, {**stated, "enabled": enabled}, path) is not None:
        draft.report.carries(path, f"schedule {schedule.ref}: {schedule.trigger}{'' if enabled else '; suspended'}")
