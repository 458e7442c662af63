"""Bookmarks: how far watchers and consumers have read their datasets."""

from __future__ import annotations

from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep, require
from streamsched.api.body import BodyObject
from streamsched.api.deps import BookmarksDep, ClockDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import EMIT_ASKED, OPERATE_ASKED, VIEW_ALL
from streamsched.domain.access.permission import Permission
from streamsched.domain.datasets.bookmark import checked_bookmark_name
from streamsched.domain.errors import NotFoundError
from streamsched.wire.bookmarks import ANY, BOOKMARK, CUES, DELETED, LISTED, NEW, OF_RUN, SET_BY_RUN, BookmarkState

routes = Routes("/v1/bookmarks", "datasets")


async def _bookmark_name(name: str, request: Request, caller: CallerDep) -> str:
    """The name in the path. For `<reader>.<namespace>.<dataset>` the caller needs the permission in the namespace, to
    emit under the name of the dataset; for any other name in all namespaces, to emit under that name.

    Raises:
        InvalidError: it is no name of a bookmark.
        ForbiddenError: the caller has no permission.
    """
    _, *rest = checked_bookmark_name(name).split(".", 2)
    namespace, emits = rest if len(rest) == 2 else (None, name)
    if request.method == "DELETE":
        require(caller.may(Permission.OPERATE, namespace))
    else:
        require(caller.may_emit(namespace, emits))
    return name


NameDep = Annotated[str, Depends(_bookmark_name)]
RunQuery = Annotated[str | None, Query(max_length=2000, description="A run that reads by this bookmark.")]


@routes.get("", "List bookmarks", may=VIEW_ALL, answers=LISTED.page("bookmarks", "BookmarkPage"))
async def list_bookmarks(bookmarks: BookmarksDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name, without values."""
    found = await bookmarks.list_names(after=after, limit=limit + 1)
    return json_response(page("bookmarks", found, limit, LISTED.write, lambda bookmark: bookmark.name))


@routes.get("/{name}", "Get a bookmark", may=EMIT_ASKED, answers=ANY.answer)
async def get_bookmark(name: NameDep, bookmarks: BookmarksDep, run: RunQuery = None) -> Response:
    """Its `value`, in the format of its reader, and its `revision`, which grows by one with each change. With `run`,
    `pending` is what that run sets by its success, null when nothing; a bookmark never set has revision 0 then.
    """
    if run is None:
        return json_response(BOOKMARK.answer_of(await bookmarks.get(name)))
    try:
        found = await bookmarks.get(name)
    except NotFoundError:
        found = BookmarkState(name=name, revision=0, changed_at=None, value="", pending=None)
    return json_response(OF_RUN.answer_of(found, pending=await bookmarks.pending_value(name, run)))


@routes.get("/{name}/cue", "Get the number of cues of a bookmark", may=EMIT_ASKED, answers=CUES.answer)
async def get_cue(name: NameDep, bookmarks: BookmarksDep) -> Response:
    """`cues`: how often an OpenLineage event said that its dataset was written; it only grows, and is 0 for a bookmark
    that does not exist. A watcher checks its table when the number differs from the last one.
    """
    return json_response(CUES.answer_of(name=name, cues=await bookmarks.count_cues(name)))


@routes.put("/{name}", "Set a bookmark", may=EMIT_ASKED, body=NEW.body, answers=ANY.answer, conflict=True)
async def set_bookmark(name: NameDep, body: BodyObject, bookmarks: BookmarksDep, clock: ClockDep) -> Response:
    """Sets `value`, a text. `revision` is the revision that the caller has read, 0 when there was none. 409 when it has
    changed since. The same request again changes nothing. With `run`, it is set when that run completes, and not when
    it ends otherwise; the response has `pending` then.
    """
    wanted = NEW.read(body)
    value, revision = wanted.value, wanted.revision
    if wanted.run is not None:
        await bookmarks.set_by_run(name, value, revision=revision, run=wanted.run)
        return json_response(SET_BY_RUN.answer_of(name=name, revision=revision, pending=value))
    return json_response(BOOKMARK.answer_of(await bookmarks.set(name, value, revision=revision, now=clock.now())))


@routes.delete("/{name}", "Delete a bookmark", may=OPERATE_ASKED, answers=DELETED.answer)
async def delete_bookmark(name: NameDep, bookmarks: BookmarksDep) -> Response:
    """Its reader begins anew. `deleted` is false when there was none."""
    return json_response(DELETED.answer_of(name=name, deleted=await bookmarks.delete(name)))
