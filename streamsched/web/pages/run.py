"""One run: what started it, where is it, what did it say?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from starlette.responses import PlainTextResponse, Response

from streamsched.api.routes.runs import read_log
from streamsched.api.routing.rules import VIEW
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError
from streamsched.domain.schedules.provenance import Provenance
from streamsched.store.jobs.job_record import JobRecord
from streamsched.store.runs.run_queries import RunRecord
from streamsched.web.pages.job import contributions
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.facts import run_facts
from streamsched.web.views.names import short_name
from streamsched.web.views.spans import phase_bar, phases
from streamsched.web.visit import PageRoute, Visit

#: Lines of the log on the page; following goes on behind them.
LINES: Final = 500
#: Bytes of a log that are sent at once to a page that follows it.
_CHUNK: Final = 256 * 1024
_LARGEST_OFFSET: Final = 2**53
DONE: Final = {"killed": "It is asked to end; its runner obeys at the next heartbeat."}


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/runs/{run}", VIEW, partial(show, renderer))
    yield PageRoute("GET", "/ui/runs/{run}/log", VIEW, log_part)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """What started it, its phases as a bar, and the last `LINES` of its log, or those with the text `find`."""
    run = await visit.api.work.runs.get(visit.param("run"))
    job, provenance = await _job_of(visit, run), await _provenance(visit, run)
    text, offset, missing = await _log(run)
    parts = phases(None if job is None else job.satisfied_at, run, visit.now)
    wanted = visit.query("find")[:200]
    lines = text.splitlines()
    return renderer.page(
        visit,
        "run.html",
        run=run,
        job=job,
        provenance=provenance,
        events=await contributions(visit, provenance.origin.events if provenance else (), run.schedule),
        app_graph=await visit.graph_of(run.program),
        facts=[] if run.metrics is None else run_facts(run.metrics),
        phases=parts,
        phase_bar=phase_bar(parts),
        log=[line for line in lines if wanted.lower() in line.lower()] if wanted else lines,
        log_offset=offset,
        log_missing=missing,
        log_cut=len(lines) >= LINES,
        wanted=wanted,
        may_operate=visit.may(Permission.OPERATE, run.program.namespace),
        done=DONE.get(visit.query("done"), ""),
        same={
            "kill": SameAs(
                command_line("run", "kill", short_name(run.id)), curl_line(visit.url, f"/v1/runs/{run.id}/kill")
            ),
            "rerun": SameAs(
                command_line("run", "rerun", short_name(run.id)), curl_line(visit.url, f"/v1/runs/{run.id}/rerun")
            ),
            "log": SameAs(command_line("run", "logs", "-f", short_name(run.id))),
        },
    )


async def log_part(visit: Visit) -> Response:
    """The log from `offset` on, as plain text. The headers are those of `GET /v1/runs/{run}/logs`."""
    given = visit.query("offset") or "0"
    if not given.isdecimal() or int(given) > _LARGEST_OFFSET:
        raise DecodeError("offset", "must be a number of bytes")
    run = await visit.api.work.runs.get(visit.param("run"))
    content, end = await read_log(run, tail=1, offset=int(given))
    sent = whole_characters(content[:_CHUNK])
    offset = end - (len(content) - len(sent))  # what was left out of the log is not sent
    headers = {"Streamsched-Log-Offset": str(offset), "Streamsched-Run-State": run.state}
    return PlainTextResponse(sent.decode(errors="replace"), headers=headers)


def whole_characters(content: bytes) -> bytes:
    """The bytes without an incomplete character at their end."""
    for cut in range(1, min(4, len(content)) + 1):
        byte = content[-cut]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        wanted = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return content[:-cut] if wanted > cut else content
    return content


async def _log(run: RunRecord) -> tuple[str, int, str]:
    """The last lines, the offset after them, and why there are none."""
    try:
        content, offset = await read_log(run, tail=LINES)
    except NotFoundError as error:
        return "", 0, f"The log cannot be read by this process: {error}"
    return content.decode(errors="replace"), offset, "" if content else "There is no output yet."


async def _job_of(visit: Visit, run: RunRecord) -> JobRecord | None:
    try:
        return None if run.job is None else await visit.api.work.jobs.get(run.job)
    except NotFoundError:
        return None


async def _provenance(visit: Visit, run: RunRecord) -> Provenance | None:
    """None when a definition cannot be read: the run is shown without."""
    try:
        return await visit.api.work.runs.provenance(run.id)
    except InvalidError:
        return None
