"""Administration over HTTP: the routes behind `streamsched top`, `doctor`, `clock`, `dlq` and `state show`."""

from __future__ import annotations

import os
from http import HTTPStatus

from starlette.responses import Response

from streamsched.admin import dead_letters
from streamsched.admin.checks.check_result import worst_level
from streamsched.admin.checks.clock import confirm
from streamsched.admin.checks.clock import to_json as clock_json
from streamsched.admin.doctor import examine, finding_json
from streamsched.admin.overview import survey
from streamsched.admin.overview import to_json as overview_json
from streamsched.admin.state import show
from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject
from streamsched.api.deps import InstallationDep
from streamsched.api.paging import After, Limit
from streamsched.api.rendering import rendered
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, OPERATE_ALL, VIEW, VIEW_ALL
from streamsched.codec.json.reading import Fields
from streamsched.domain.names import ScheduleRef

routes = Routes("/v1/admin", "admin")


@routes.get("/overview", "State of shards and queues", may=VIEW_ALL, answers="Overview", missing=True)
async def get_overview(at: InstallationDep) -> Response:
    """Owner, lag, rates, recovery time and schedules in error of each shard, and the number and age of items that wait
    for the relay, timers and launchers.
    """
    return rendered(overview_json(await survey(at.broker, at.reports)))


@routes.get("/checks", "Check the installation", may=ADMINISTER_ALL, answers="Checks")
async def get_checks(at: InstallationDep) -> Response:
    """Checks log, shards, schema, clocks, permissions, and Java on the API's machine: `{"health", "findings"}`."""
    findings = await examine(
        broker=at.broker, probe=at.probe, clock=at.clock, specs=at.specs, revisions=at.revisions, environ=os.environ
    )
    return rendered({"health": worst_level(findings), "findings": [finding_json(each) for each in findings]})


@routes.get("/clock", "Get the time", may=VIEW_ALL, answers="Clock")
async def get_clock(at: InstallationDep) -> Response:
    """PostgreSQL's clock (`database`), the time that processes go by (`counted`), and what was judged last. `doubt`
    says how the clock has jumped; then nothing expires, is killed or deleted.
    """
    return rendered(clock_json(await at.judgements.state()))


@routes.post(
    "/clock/confirm",
    "Confirm the time of the database's clock",
    may=ADMINISTER_ALL,
    body="SeenJudgement",
    answers="Clock",
    conflict=True,
)
async def confirm_clock(body: BodyObject, caller: CallerDep, at: InstallationDep) -> Response:
    """A person says that PostgreSQL's clock, which has jumped, is right: its time is the installation's within seconds.
    `number` is the judgement that was seen. 409 when the clock is not in doubt, or was judged again since.
    """
    fields = Fields(body)
    number = fields.integer("number", minimum=0)
    fields.check_all_read()
    return rendered(clock_json(await confirm(at.judgements, number, by=caller.name)))


@routes.get("/dead-letters", "List dead letters", may=OPERATE_ALL, answers="DeadLetterPage", missing=True)
async def list_letters(at: InstallationDep, after: After = "", limit: Limit = 100) -> Response:
    """A page of the dead letters that are not archived, newest first."""
    return rendered(await dead_letters.letters_page(at.broker, at.archived_letters, limit=limit, after=after))


@routes.post("/dead-letters/purge", "Archive all dead letters", may=OPERATE_ALL, answers="Purged", missing=True)
async def purge_letters(at: InstallationDep) -> Response:
    """Archives all dead letters, so lists omit them. The log deletes them after its retention time. `purged` is the
    number of letters archived by this request.
    """
    return rendered({"purged": await dead_letters.purge(at.broker, at.archived_letters)})


@routes.get("/dead-letters/{partition}/{offset}", "Get a dead letter", may=OPERATE_ALL, answers="DeadLetter")
async def get_letter(partition: str, offset: str, at: InstallationDep) -> Response:
    """A dead letter with its record, archived or not."""
    return rendered(dead_letters.to_json(await dead_letters.dead_letter(at.broker, f"{partition}/{offset}")))


@routes.post(
    "/dead-letters/{partition}/{offset}/replay",
    "Replay a dead letter",
    may=OPERATE_ALL,
    answers={202: "Replayed"},
    conflict=True,
)
async def replay_letter(partition: str, offset: str, at: InstallationDep) -> Response:
    """Appends the letter's record to its original topic and partition again: 202 `{"id", "topic", "partition"}`. 409
    when the original topic is an internal one.
    """
    letter = await dead_letters.dead_letter(at.broker, f"{partition}/{offset}")
    topic, target = await dead_letters.replay(at.broker, letter)
    return rendered({"id": letter.id, "topic": topic, "partition": target}, status=HTTPStatus.ACCEPTED)


@routes.get("/schedules/{schedule}/state", "Get the shard's state of a schedule", may=VIEW, answers="ShardState")
async def get_state(schedule: str, at: InstallationDep) -> Response:
    """The state of the schedule in its shard, read from the log: definition, counts and open keys."""
    return rendered(await show(at.broker, ScheduleRef.parse(schedule)))
