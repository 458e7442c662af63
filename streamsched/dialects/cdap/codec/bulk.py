"""Many schedules of CDAP at once: a list of `ScheduleDetail`, as the REST API returns it, or one alone.

    [{"namespace", "application", "name", "program": {…}, "trigger": {…}, …}, …]     or     {"schedules": […]}

Each application becomes an app. The JSON of schedules does not have the programs, so each is a placeholder, unless it
is given. A schedule that is not understood is a placeholder too, without a trigger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.moving.draft import AppDraft, Imported, Report, placeholder
from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.dialects.cdap.codec import schedule as schedules
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.json_value import Json
from streamsched.domain.names import DEFAULT_NAMESPACE, AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import ProgramStatus, leaves

#: Bytes of a document, and schedules in it.
LARGEST: Final = 64 * 1024 * 1024
MOST: Final = 100_000
_NAMES: Final = frozenset({"namespace", "application", "name"})
#: What is different for all schedules.
ZONE: Final = "a time without a zone is UTC here; in CDAP it is in the zone of its server"
#: What an installation of CDAP says of a schedule besides its definition.
IGNORED_MEMBERS: Final = ("applicationVersion", "lastUpdateTime")


def schedules_from_json(raw: bytes, *, namespace: str = "", programs: Mapping[str, Json] | None = None) -> Imported:
    """The apps of the schedules in a document.

    Args:
        namespace: of the apps; empty: that of each schedule.
        programs: those in place of placeholders, by `app.program` or `program`.

    Raises:
        DecodeError: it is too large, no JSON, or no list of schedules.
    """
    report, drafts = Report(), dict[AppRef, AppDraft]()
    for item, path in _items(raw):
        owner = _owner(item, namespace)
        draft = drafts.setdefault(owner, AppDraft(owner, report))
        add_schedule(draft, item, path, programs or {}, namespace)
        ignored = [name for name in IGNORED_MEMBERS if isinstance(item, dict) and name in item]
        if ignored:
            report.differs(path, f"not kept: {', '.join(ignored)}")
    if drafts:
        report.differs("all", ZONE)
    if not drafts and not report.notes:
        report.cannot("all", "no schedule was found")
    return Imported(tuple(draft.document() for draft in drafts.values()), tuple(report.notes))


def add_schedule(draft: AppDraft, item: Json, path: str, programs: Mapping[str, Json], namespace: str = "") -> bool:
    """Adds a schedule to the app; whether it is there. One that is not understood becomes a placeholder.

    Args:
        programs, namespace: as of `schedules_from_json`, the programs for those that the app does not have yet.
    """
    try:
        return _add(draft, _schedule(item, path, namespace), path, programs, enabled=_read_enabled(item))
    except InvalidError as exc:
        _add_unread(draft, item, exc.path if exc.path.startswith(path) else path, exc.reason)
        return False


def _items(raw: bytes) -> Iterator[tuple[Json, str]]:
    if len(raw) > LARGEST:
        raise DecodeError("$", f"has {len(raw)} bytes, the most are {LARGEST}")
    try:
        document: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise DecodeError("$", f"is not valid JSON: {exc}") from exc
    path = "$"
    if isinstance(document, dict):
        if "schedules" not in document:
            yield document, path
            return
        document, path = document["schedules"], "$.schedules"
    if not isinstance(document, list):
        raise DecodeError(path, "is not a list of schedules")
    if len(document) > MOST:
        raise DecodeError(path, f"has {len(document)} schedules, the most are {MOST}")
    for index, item in enumerate(document):
        yield item, f"{path}[{index}]"


def _schedule(item: Json, path: str, namespace: str) -> Schedule:
    fields = Fields(item, path)
    app, name = fields.text("application"), fields.text("name")
    space = namespace or fields.optional_text("namespace") or DEFAULT_NAMESPACE
    return schedules.from_json(item, ScheduleRef(space, app, name), path)


def _owner(item: Json, namespace: str) -> AppRef:
    """The app of a schedule; that of all without a valid one is `unread`."""
    fields = item if isinstance(item, dict) else {}
    space = namespace or fields.get("namespace") or DEFAULT_NAMESPACE
    try:
        return AppRef(str(space), str(fields["application"]))
    except (InvalidError, KeyError):
        return AppRef(namespace or DEFAULT_NAMESPACE, "unread")


def _add_unread(draft: AppDraft, item: Json, path: str, reason: str) -> None:
    """A schedule that is not understood: a placeholder of its name, which nothing starts."""
    given = item.get("name") if isinstance(item, dict) else None
    wanted = given if isinstance(given, str) and given else "schedule"
    name = draft.add_program(
        wanted, placeholder(f"schedule {wanted} of CDAP ({path}) is not understood: {reason}"), path
    )
    draft.report.cannot(path, f"{reason}; program {name} is a placeholder, which nothing starts: give it a schedule")


def _read_enabled(item: Json) -> bool:
    return not isinstance(item, Mapping) or (item.get("status") or item.get("scheduleStatus")) != "SUSPENDED"


def _add(draft: AppDraft, schedule: Schedule, path: str, programs: Mapping[str, Json], *, enabled: bool) -> bool:
    if schedule.ref.name in draft.schedules:
        raise DecodeError(f"{path}.name", f"schedule '{schedule.ref.name}' is listed twice")
    own = {leaf.program for leaf in leaves(schedule.trigger) if isinstance(leaf, ProgramStatus)}
    for program in sorted({schedule.program, *(each for each in own if each.owner == draft.ref)}):
        if program.name not in draft.programs:
            _add_program(draft, program, path, programs)
    definition = {name: value for name, value in schedule_to_json(schedule).items() if name not in _NAMES}
    stated = {name: value for name, value in definition.items() if value not in (None, "", [], {})}
    if draft.add_schedule(schedule.ref.name, {**stated, "enabled": enabled}, path, exact=True) is None:
        return False
    draft.report.carries(path, f"schedule {schedule.ref}: {schedule.trigger}{'' if enabled else '; suspended'}")
    return True


def _add_program(draft: AppDraft, program: ProgramRef, path: str, programs: Mapping[str, Json]) -> None:
    """The given program, or a placeholder."""
    given = programs.get(f"{program.app}.{program.name}", programs.get(program.name))
    if isinstance(given, Mapping) and draft.add_program(program.name, given, path) is not None:
        draft.report.carries(path, f"program {program.name}: the given one")
        return
    what = f"the workflow or Spark program {program.name} of CDAP's application {program.app}"
    draft.add_program(program.name, placeholder(what), path)
    draft.report.cannot(
        path,
        f"program {program.name} is a placeholder that fails. It needs what CDAP's {program.name} runs: a program of "
        "type spark (`main`), bash (`command`), python (`target`) or http (`url`), by `--programs` or in the app file",
    )
