"""One job: why it waits, or what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from streamsched.api.routing.rules import VIEW
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import StreamschedError
from streamsched.domain.jobs.job import JobState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.triggers.trigger import leaf_id, leaves
from streamsched.launcher.why import explain_job
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.names import add_links, leaf_words, run_href, short_name
from streamsched.web.views.reasons import Reason, waiting_reason
from streamsched.web.views.states import in_words, job_word
from streamsched.web.visit import PageRoute, Visit

#: What an action did, for the page after it.
DONE: Final = {
    "submitted": "A job was made. It starts as soon as its constraints permit.",
    "rerun": "A job was made that repeats the run.",
    "force": "It will start without its constraints at the next check.",
    "cancel": "It will end at the next check.",
    "hold": "It is held until it is released.",
    "release": "It waits for its constraints again.",
}


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/jobs/{job}", VIEW, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """A waiting job: what it waits for and its earliest start, with the commands. Another: what became of it, with its
    last ten runs.
    """
    job = await visit.api.work.jobs.get(visit.param("job"))
    explained = await explain_job(job.id, jobs=visit.api.work.jobs, clock=visit.api.clock, sees=visit.caller.sees)
    word = job_word(job.state, job.outcome and job.outcome.state)
    if job.state is JobState.PENDING_CONSTRAINT:
        reason = waiting_reason(explained, visit.times, subject=Markup("It"))
    else:
        hrefs = {run: run_href(run) for run in job.runs}
        text = in_words(explained.summary[:1].upper() + explained.summary[1:])
        lines = [Markup("{}.").format(add_links(each[:1].upper() + each[1:], hrefs)) for each in explained.deadlines]
        reason = Reason(word, Markup("{}.").format(add_links(text.rstrip("."), hrefs)), tuple(lines))
    return renderer.page(
        visit,
        "job.html",
        job=job,
        word=word,
        explained=explained,
        satisfied_by=await contributions(visit, explained.satisfied_by, job.schedule),
        reason=reason,
        app_graph=await visit.graph_of(job.schedule or job.program),
        runs=[await visit.api.work.runs.get(run) for run in job.runs[-10:]],
        waits=job.state is JobState.PENDING_CONSTRAINT,
        may_operate=visit.may(Permission.OPERATE, job.id.partition(".")[0]),
        done=DONE.get(visit.query("done"), ""),
        same={
            order: SameAs(
                command_line("job", order, short_name(job.id)),
                "" if order == "why" else curl_line(visit.url, f"/v1/jobs/{job.id}/{order}"),
            )
            for order in ("why", "force", "cancel", "hold", "release")
        },
    )


async def contributions(visit: Visit, texts: Sequence[str], schedule: ScheduleRef | None) -> list[str]:
    """Contributions with the words of the schedule's leaves, as the schedule is now."""
    if not texts or schedule is None:
        return list(texts)
    try:
        trigger = (await visit.api.catalog.reader.schedule(schedule)).record.definition.trigger
    except StreamschedError:
        return list(texts)
    words = {leaf_id(leaf): str(leaf) for leaf in leaves(trigger)}
    return [leaf_words(text, words) for text in texts]
