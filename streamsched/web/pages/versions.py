"""The versions of a schedule: what differs from the present one, and going back to one, with what is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.responses import RedirectResponse, Response

from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.catalog.preview import Difference
from streamsched.codec.schedules.schedule import schedule_from_json
from streamsched.domain.access.permission import Permission
from streamsched.domain.access.references import schedule_references
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.store.catalog.versions import ScheduleVersion
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.names import schedule_href, short_name
from streamsched.web.visit import PageRoute, Visit

#: As many as the store keeps of each schedule.
_VERSIONS: Final = 50
_LONGEST_FIELD: Final = 4000


class VersionRow(NamedTuple):
    """A version with its trigger as a sentence; empty when this release cannot read it."""

    version: ScheduleVersion
    trigger: str


class FieldLines(NamedTuple):
    """A field that differs, as text of the version and of the present definition."""

    field: str
    present: str
    version: str


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/schedules/{schedule}/versions", VIEW, partial(show, renderer))
    yield PageRoute("POST", "/ui/schedules/{schedule}/versions", DEPLOY, restore)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The versions, the newest first. With `of`, a generation: what differs from the present one, and what would be
    lost by going back, with the token of that plan.
    """
    ref = ScheduleRef.parse(visit.param("schedule"))
    status = await visit.api.catalog.reader.schedule(ref)
    versions = await visit.api.catalog.reader.versions(ref, limit=_VERSIONS)
    wanted, keep = visit.query("of"), visit.query("keep") == "yes"
    chosen = None if not wanted else _find_version(versions, wanted)
    preview = None
    if chosen is not None:
        preview = await visit.api.catalog.update(_definition(chosen), keep=keep or None).preview()
    change = preview.schedules[0] if preview is not None and preview.schedules else None
    return renderer.page(
        visit,
        "versions.html",
        ref=ref,
        record=status.record,
        versions=[VersionRow(each, _trigger(each)) for each in versions],
        chosen=chosen,
        plan="" if preview is None else preview.token,
        fields=[] if change is None else [_lines(each) for each in change.fields],
        dropped=None if change is None else change.loss,
        keep=keep,
        may_deploy=visit.may(Permission.DEPLOY, ref.namespace),
        done="The version is in force again." if visit.query("done") else "",
        same=SameAs(
            command_line("schedule", "history", short_name(ref)),
            "" if chosen is None else curl_line(visit.url, f"/v1/schedules/{ref}", chosen.definition, method="PUT"),
        ),
    )


async def restore(visit: Visit) -> Response:
    """Makes a stored definition the present one. Refused when it would now lose something else than was shown."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    versions = await visit.api.catalog.reader.versions(ref, limit=_VERSIONS)
    chosen = _find_version(versions, visit.form.get("of", ""))
    definition = _definition(chosen)
    await visit.api.access.references.check(visit.caller, ref.namespace, schedule_references(definition))
    await visit.api.catalog.update(definition, keep=visit.form.get("keep") == "yes" or None).apply(
        plan=visit.form.get("plan") or None
    )
    return RedirectResponse(f"{schedule_href(ref)}/versions?done=yes", HTTPStatus.SEE_OTHER)


def _find_version(versions: Sequence[ScheduleVersion], generation: str) -> ScheduleVersion:
    """Raises:
    NotFoundError: there is no version with this generation.
    """
    for each in versions:
        if str(each.generation) == generation:
            return each
    raise NotFoundError("version", generation)


def _definition(version: ScheduleVersion) -> Schedule:
    """Raises:
    InvalidError: this release cannot read it.
    """
    try:
        return schedule_from_json(version.definition)
    except InvalidError as error:
        raise InvalidError("of", f"generation {version.generation} cannot be read by this release: {error}") from error


def _trigger(version: ScheduleVersion) -> str:
    try:
        return str(_definition(version).trigger)
    except InvalidError:
        return ""


def _lines(each: Difference) -> FieldLines:
    return FieldLines(each.field, _text(each.before), _text(each.after))


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_FIELD else f"{text[:_LONGEST_FIELD]}…"
