"""Programs that launchers execute themselves: a request, an event. Answers come from a real server on loopback."""

from __future__ import annotations

import asyncio
import gzip
from datetime import timedelta

import orjson
import pytest

from streamsched.codec.events import native
from streamsched.domain.events.event import CustomHappened
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import HttpJob, PublishJob
from streamsched.launcher.start import start
from streamsched.ports.runs import StopRequest

from .conftest import PROGRAM, World
from .inline import HERE, OTHER, QUICK, SAY, Staffed, answering, request, run, satisfied

pytestmark = pytest.mark.postgres


async def test_an_event_goes_out_with_the_end_of_its_run_and_once(world: World) -> None:
    await satisfied(world, SAY, jobs=3)
    staffed = Staffed(world)
    await staffed.once()
    await staffed.once()

    assert await world.run_states() == ["COMPLETED"] * 3
    assert world.runners.spawned == []
    said = await world.published("events")
    facts = [native.from_json(orjson.loads(value)).fact for value in said]
    assert facts == [CustomHappened(SAY.event, {"why": f"default.app.quick.1.{n}", "a": "program"}) for n in (1, 2, 3)]


async def test_an_answer_ends_the_run_and_its_first_words_are_the_reason(world: World) -> None:
    async with answering("200 OK") as far:
        await satisfied(world, request(far, "/{a}?job={trigger.job}"))
        assert await Staffed(world).until(run(), "COMPLETED") == "HTTP 200: well!"

    [asked] = far.asked
    assert asked.startswith("POST /program?job=default.app.quick.1.1 HTTP/1.1")
    assert '"job":"default.app.quick.1.1","attempt":1,"program":"default.app.load"' in asked
    outcomes = [native.from_json(orjson.loads(value)) for value in await world.published()]
    assert [each.fact.outcome for each in outcomes] == ["started", "succeeded"]  # type: ignore[union-attr]


async def test_an_answer_that_no_text_column_takes_is_reported_without_what_it_refuses(world: World) -> None:
    async with answering("200 OK") as far:
        far.words = "a\0b"
        await satisfied(world, request(far))

        assert await Staffed(world).until(run(), "COMPLETED") == "HTTP 200: a\ufffdb"


async def test_a_failed_request_is_repeated_under_the_same_key(world: World) -> None:
    async with answering("503 Not Now") as far:
        await satisfied(world, request(far), Retry(2, delay=timedelta(0)))
        staffed = Staffed(world)
        assert await staffed.until(run(), "FAILED") == "HTTP 503: well!"
        far.answer, far.words = "204 Fine", ""
        await staffed.until(run(attempt=2), "COMPLETED")

    assert far.keys() == ["default.app.quick.1.1"] * 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (HttpJob("http://127.0.0.1:9/"), "no answer: [Errno 111] Connect call failed ('127.0.0.1', 9)"),
        (HttpJob("http://127.0.0.1:9/{nothing}"), "the program cannot be started: the program asks for argument"),
        (HttpJob("http://a:{a}/"), "the program cannot be started: $.url: is 'http://a:{a}/'"),
        (PublishJob(SAY.event, {"x": "{y}"}), "the program cannot be started: the program asks for argument 'y'"),
    ],
)
async def test_what_cannot_be_done_fails_with_its_reason(world: World, program: HttpJob | PublishJob, why: str) -> None:
    await satisfied(world, program)

    assert (await Staffed(world).until(run(), "FAILED")).startswith(why)
    assert len(await world.published("events")) == 0


async def test_an_answer_that_does_not_come_ends_too(world: World) -> None:
    async with answering("") as far:
        await satisfied(world, request(far, timeout=timedelta(milliseconds=200)))
        assert await Staffed(world).until(run(), "FAILED") == "no answer within 0.2 s"


async def test_a_run_that_a_user_kills_ends_its_request(world: World) -> None:
    async with answering("") as far:
        await satisfied(world, request(far))
        staffed = Staffed(world)
        await staffed.until(run(), "RUNNING")
        await far.asking.wait()
        await world.runs.stop(run(), StopRequest("ann: enough"), now=world.clock.now())

        assert await staffed.until(run(), "KILLED") == "ann: enough"
        assert not staffed.inline_executor.holds(run())


async def test_the_run_of_a_launcher_that_died_is_repeated_by_another_and_ends_once(world: World) -> None:
    async with answering("") as far:
        await satisfied(world, request(far))
        dead = Staffed(world)
        await dead.until(run(), "RUNNING")
        await far.asking.wait()
        world.runners.living = {HERE: False}
        world.clock.advance(timedelta(seconds=16))
        far.answer = "200 OK"
        other = Staffed(world, OTHER)
        await other.until(run(attempt=2), "COMPLETED")

        assert (await world.runs.get(run())).state == "LOST"
        await dead.inline_executor.run_once()  # it was only paused
        assert not dead.inline_executor.holds(run())
    assert await world.run_states() == ["LOST", "COMPLETED"]


async def test_an_admission_whose_answer_was_lost_is_found(world: World) -> None:
    await satisfied(world, SAY)
    staffed = Staffed(world)
    await staffed.launcher.run_once()
    forgetful = Staffed(world)  # the same process, which never heard what it was given
    world.clock.advance(timedelta(seconds=16))

    await forgetful.until(run(attempt=2), "COMPLETED")

    await staffed.inline_executor.run_once()
    assert await world.run_states() == ["LOST", "COMPLETED"]
    assert len(await world.published("events")) == 1


async def test_a_run_by_hand_needs_no_room_of_a_host_that_is_full(world: World) -> None:
    await world.define(QUICK)
    await world.execute(PublishJob(SAY.event, {"a": "{a}"}))
    world.runners.free = 0
    by_hand = await start(world.runs, world.clock, PROGRAM, {"a": "b"}, token="x")

    assert await Staffed(world).until(by_hand, "COMPLETED") == "published default.said"
    assert await Staffed(world).run_monitor.next_due_at() is None


async def test_publications_take_no_room_from_requests(world: World) -> None:
    await satisfied(world, SAY, jobs=5)
    staffed = Staffed(world, capacity=2)
    await staffed.launcher.run_once()

    assert await world.run_states() == ["STARTING"] * 5
    assert (staffed.inline_executor.room(), staffed.inline_executor.publications()) == (2, 4 * 2 - 5)
    while await staffed.inline_executor.run_once():
        pass
    assert await world.run_states() == ["COMPLETED"] * 5
    assert staffed.inline_executor.publications() == 4 * 2


async def test_a_full_executor_seeks_room_no_sooner_than_it_needs_any(world: World) -> None:
    await satisfied(world, SAY)
    await world.launcher.run_once()
    in_an_hour = world.clock.now() + timedelta(hours=1)
    await world.postpone_runners(in_an_hour)

    assert await Staffed(world, capacity=0).run_monitor.next_due_at() == in_an_hour


async def test_a_launcher_without_an_executor_leaves_inline_runs_to_others(world: World) -> None:
    await satisfied(world, SAY)
    await world.launcher.run_once()

    assert (await world.runs.get(run())).state == "PENDING"
    assert world.runners.spawned == []
    await Staffed(world).until(run(), "COMPLETED")


async def test_an_end_that_cannot_be_stored_keeps_no_other_run_from_ending(world: World) -> None:
    await satisfied(world, SAY, jobs=5)
    staffed = Staffed(world)
    await staffed.launcher.run_once()
    await world.refuse(f"NEW.id = '{run(2)}' AND NEW.state = 'COMPLETED' OR NEW.id = '{run(4)}' AND NEW.reason != ''")

    await staffed.once()

    assert await world.run_states() == [
        "COMPLETED",
        "FAILED",
        "COMPLETED",
        "STARTING",
        "COMPLETED",
    ]
    assert (await world.runs.get(run(2))).reason == "the reason of its end cannot be stored"
    assert len(await world.published("events")) == 3
    assert not staffed.inline_executor.holds(run(4))


async def test_a_program_that_cannot_be_read_keeps_no_other_run_from_beginning(world: World) -> None:
    await satisfied(world, SAY, jobs=3)
    await world.launcher.run_once()  # without an executor: the runs are claimed later
    await world.put_text("executables", {"type": "publish"}, run(2))
    staffed = Staffed(world)

    await staffed.once()

    assert await world.run_states() == ["COMPLETED", "STARTING", "COMPLETED"]
    assert not staffed.inline_executor.holds(run(2))


async def test_an_answer_that_is_not_http_says_so(world: World) -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(odd, "127.0.0.1", 0)
    async with server:
        await satisfied(world, HttpJob(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"))
        reason = await Staffed(world).until(run(), "FAILED")
    assert reason is not None
    assert reason.startswith("its answer is not HTTP: Bad status line: Expected HTTP/")


async def test_a_compressed_body_is_not_unpacked(world: World) -> None:
    async def bomb(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        packed = gzip.compress(bytes(50_000_000))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        writer.write(head.encode() + packed)
        writer.close()

    server = await asyncio.start_server(bomb, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        await satisfied(world, HttpJob(f"http://127.0.0.1:{port}/x"))
        assert await Staffed(world).until(run(), "COMPLETED") == "HTTP 200: a body encoded as 'gzip'"
