"""Administration over HTTP: the routes behind `streamsched top`, `doctor`, `clock`, `dlq` and `state show`."""

from __future__ import annotations

import os
from http import HTTPStatus

from starlette.responses import Response

from streamsched.admin import dead_letters
from streamsched.admin.checks.check_result import CHECKS, CheckReport, worst_level
from streamsched.admin.checks.clock import CLOCK, SEEN, confirm
from streamsched.admin.checks.clock import to_json as clock_json
from streamsched.admin.dead_letters import LETTER, PURGED, REPLAYED
from streamsched.admin.doctor import examine
from streamsched.admin.overview import OVERVIEW, survey
from streamsched.admin.overview import to_json as overview_json
from streamsched.admin.state import STATE, show
from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject
from streamsched.api.deps import InstallationDep
from streamsched.api.paging import After, Limit
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, OPERATE_ALL, VIEW, VIEW_ALL
from streamsched.domain.names import ScheduleRef

routes = Routes("/v1/admin", "admin")


@routes.get("/overview", "State of shards and queues", may=VIEW_ALL, answers=OVERVIEW.answer, missing=True)
async def get_overview(at: InstallationDep) -> Response:
    """Owner, lag, rates, recovery time and schedules in error of each shard, and the number and age of items that wait
    for the relay, timers and launchers.
    """
    return json_response(overview_json(await survey(at.broker, at.reports)))


@routes.get("/checks", "Check the installation", may=ADMINISTER_ALL, answers=CHECKS.answer)
async def get_checks(at: InstallationDep) -> Response:
    """Checks log, shards, schema, clocks, permissions, and Java on the API's machine: `{"health", "findings"}`."""
    findings = await examine(
        broker=at.broker, probe=at.probe, clock=at.clock, specs=at.specs, revisions=at.revisions, environ=os.environ
    )
    return json_response(CHECKS.write(CheckReport(health=worst_level(findings), findings=findings)))


@routes.get("/clock", "Get the time", may=VIEW_ALL, answers=CLOCK.answer)
async def get_clock(at: InstallationDep) -> Response:
    """PostgreSQL's clock (`database`), the time that processes go by (`counted`), and what was judged last. `doubt`
    says how the clock has jumped; then nothing expires, is killed or deleted.
    """
    return json_response(clock_json(await at.judgements.state()))


@routes.post(
    "/clock/confirm",
    "Confirm the time of the database's clock",
    may=ADMINISTER_ALL,
    body=SEEN.body,
    answers=CLOCK.answer,
    conflict=True,
)
async def confirm_clock(body: BodyObject, caller: CallerDep, at: InstallationDep) -> Response:
    """A person says that PostgreSQL's clock, which has jumped, is right: its time is the installation's within seconds.
    `number` is the judgement that was seen. 409 when the clock is not in doubt, or was judged again since.
    """
    return json_response(clock_json(await confirm(at.judgements, SEEN.read(body).number, by=caller.name)))


@routes.get(
    "/dead-letters",
    "List dead letters",
    may=OPERATE_ALL,
    answers=LETTER.page("letters", "DeadLetterPage"),
    missing=True,
)
async def list_letters(at: InstallationDep, after: After = "", limit: Limit = 100) -> Response:
    """A page of the dead letters that are not archived, newest first."""
    return json_response(await dead_letters.letters_page(at.broker, at.archived_letters, limit=limit, after=after))


@routes.post("/dead-letters/purge", "Archive all dead letters", may=OPERATE_ALL, answers=PURGED.answer, missing=True)
async def purge_letters(at: InstallationDep) -> Response:
    """Archives all dead letters, so lists omit them. The log deletes them after its retention time. `purged` is the
    number of letters archived by this request.
    """
    return json_response(PURGED.answer_of(purged=await dead_letters.purge(at.broker, at.archived_letters)))


@routes.get("/dead-letters/{partition}/{offset}", "Get a dead letter", may=OPERATE_ALL, answers=LETTER.answer)
async def get_letter(partition: str, offset: str, at: InstallationDep) -> Response:
    """A dead letter with its record, archived or not."""
    return json_response(LETTER.write(await dead_letters.dead_letter(at.broker, f"{partition}/{offset}")))


@routes.post(
    "/dead-letters/{partition}/{offset}/replay",
    "Replay a dead letter",
    may=OPERATE_ALL,
    answers={202: REPLAYED.answer},
    conflict=True,
)
async def replay_letter(partition: str, offset: str, at: InstallationDep) -> Response:
    """Appends the letter's record to its original topic and partition again: 202 `{"id", "topic", "partition"}`. 409
    when the original topic is an internal one.
    """
    letter = await dead_letters.dead_letter(at.broker, f"{partition}/{offset}")
    topic, target = await dead_letters.replay(at.broker, letter)
    return json_response(REPLAYED.answer_of(id=letter.id, topic=topic, partition=target), status=HTTPStatus.ACCEPTED)


@routes.get("/schedules/{schedule}/state", "Get the shard's state of a schedule", may=VIEW, answers=STATE.answer)
async def get_state(schedule: str, at: InstallationDep) -> Response:
    """The state of the schedule in its shard, read from the log: definition, counts and open keys."""
    ref = ScheduleRef.parse(schedule)
    return json_response(await show(at.broker, ref, (await at.reader.schedule(ref)).record.affinity))
