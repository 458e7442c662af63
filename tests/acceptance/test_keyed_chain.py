"""A key goes through a chain of programs: runs have its columns as arguments, and the next `per` goes on with them."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from streamsched import App, event, partitions, program
from streamsched.define.loading import load_app
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import DatasetRef, EventName
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, open_scheduler
from tests.support.dev_process import DevProcess

pytestmark = pytest.mark.postgres

EXAMPLE = Path(__file__).parents[2] / "examples" / "keyed_chain"


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def landed(dataset: str, *rows: dict[str, str]) -> Event:
    """One commit of partitions with these values."""
    keys = ["/".join(f"{name}={value}" for name, value in row.items()) for row in rows]
    named = tuple(Partition(key, row) for key, row in zip(keys, rows, strict=True))
    return Event(f"{dataset}:{keys}", "test", MONDAY, PartitionsAdded(DatasetRef("default", dataset), named, len(rows)))


def days(*numbers: int, store: str = "berlin") -> list[dict[str, str]]:
    return [{"store": store, "date": f"2026-03-0{number}"} for number in numbers]


def chain(hops: int) -> App:
    """`p0` for each store and day, then `p1` for each end of it, and so on."""
    app = App("chain")
    when = partitions("orders").per("store", "date")
    for hop in range(hops + 1):
        app.schedule(f"s{hop}", app.bash(f"p{hop}", "true"), when=when, overlap="queue")
        when = program(f"p{hop}").per("store", "date")
    return app


def seen(scheduler: InProcessScheduler, name: str) -> Counter[tuple[str, str]]:
    """The store and the day of each run of a program."""
    found = [run.arguments for run in scheduler.runs if run.program == name]
    for given in found:
        assert (given["key.store"], given["key.date"]) == (given["store"], given["date"])
        assert given["trigger.key"] == f"{quote(given['store'], safe=' ')}/{given['date']}"
    return Counter((given["store"], given["date"]) for given in found)


async def test_every_key_goes_through_five_programs_once(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(chain(4))
    rows = [*days(1, 2, 3), *days(2, 3, store="paris / lyon %")]
    await scheduler.emit(landed("orders", *rows[:4]), landed("orders", rows[4]))

    await scheduler.end_all()

    everything = Counter((row["store"], row["date"]) for row in rows)
    assert [seen(scheduler, f"p{hop}") for hop in range(5)] == [everything] * 5


async def test_a_key_whose_run_fails_goes_no_further_and_the_others_do(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(chain(2))
    await scheduler.emit(landed("orders", *days(1, 2)))
    first, _ = scheduler.runs
    await scheduler.end(first, RunState.FAILED)
    await scheduler.end_all()

    assert seen(scheduler, "p2") == {("berlin", "2026-03-02"): 1}


async def test_a_join_down_the_chain_waits_for_the_same_key_and_a_match_takes_a_branch(
    scheduler: InProcessScheduler,
) -> None:
    await scheduler.deploy(load_app(str(EXAMPLE / "app.py")))
    await scheduler.emit(landed("prices", *days(2)), landed("orders", *days(1, 2), *days(2, store="paris")))
    await scheduler.end_all()
    assert seen(scheduler, "clean").total() == 3
    assert seen(scheduler, "join") == {("berlin", "2026-03-02"): 1}, "the only key with both inputs"
    invoices = [run.arguments for run in scheduler.runs if run.program == "invoice"]
    assert [(each["date"], each["trigger.key"]) for each in invoices] == [("2026-03-02", "2026-03-02")]
    assert "store" not in invoices[0], "its `per` does not name it"

    await scheduler.emit(landed("prices", *days(2, store="paris")))
    await scheduler.end_all()
    programs = Counter(run.program for run in scheduler.runs)
    assert programs == {"clean": 3, "join": 2, "invoice": 1}, "no invoice of paris"
    closing = "SELECT arguments ->> 'key.date' FROM runs WHERE program = 'default.sales.closed'"
    assert [row[0] for row in await scheduler.pool.fetch(closing)] == ["2026-03-02"], "the complete day is published"


async def test_a_match_counts_runs_by_any_argument_also_without_per(scheduler: InProcessScheduler) -> None:
    app = App("app")
    load = app.bash("load", "true", defaults={"mode": "full"})
    note = app.bash("note", "true")
    app.schedule("eu", load, when=event("go").per("region"), properties={"mode": "delta"}, overlap="queue")
    app.schedule("all", load, when=event("all"), overlap="queue")
    app.schedule("delta", note, when=program(load, match={"mode": "delta", "region": ["EU", "AP"]}, times=2))
    app.schedule("full", note, when=program(load, match={"mode": "full"}))
    await scheduler.deploy(app)

    def go(number: int, region: str) -> Event:
        return Event(f"e{number}", "test", MONDAY, CustomHappened(EventName("default", "go"), {"region": region}))

    await scheduler.emit(go(1, "EU"), go(2, "US"))
    await scheduler.end_all()
    assert [run.schedule for run in scheduler.runs if run.program == "note"] == []
    await scheduler.emit(Event("e3", "test", MONDAY, CustomHappened(EventName("default", "all"), {})), go(4, "AP"))
    await scheduler.end_all()
    assert sorted(str(run.schedule) for run in scheduler.runs if run.program == "note") == ["delta", "full"]


async def test_a_roll_up_goes_on_with_its_period(scheduler: InProcessScheduler) -> None:
    app = App("app")
    load, report, month = (app.bash(name, "true") for name in ("load", "report", "month"))
    app.schedule("load", load, when=partitions("clicks").per("hour").rolled_up_to("day", of=2))
    app.schedule("report", report, when=program(load).per("day", grain="day"))
    app.schedule("month", month, when=program(report).per("day").rolled_up_to("month", of=2))
    await scheduler.deploy(app)

    for hour in ("2026-03-01T05", "2026-03-02T07", "2026-03-01T06", "2026-03-02T09"):
        await scheduler.emit(landed("clicks", {"hour": hour}))
    await scheduler.end_all()

    given = [{name: run.arguments.get(name) for name in ("hour", "day", "month")} for run in scheduler.runs]
    assert sorted(map(str, given)) == sorted(
        map(
            str,
            [
                *[{"hour": None, "day": f"2026-03-0{day}", "month": None} for day in (1, 1, 2, 2)],
                {"hour": None, "day": None, "month": "2026-03"},
            ],
        )
    )


async def test_a_default_is_for_runs_without_a_key(scheduler: InProcessScheduler) -> None:
    app = App("app")
    load = app.bash("load", "true", defaults={"date": "today", "key.date": "none"})
    app.schedule("keyed", load, when=partitions("orders").per("date"))
    app.schedule("plain", load, when=partitions("orders"))
    await scheduler.deploy(app)
    await scheduler.emit(landed("orders", *days(1)))

    given = {run.schedule: (run.arguments["date"], run.arguments["key.date"]) for run in scheduler.runs}
    assert given == {"keyed": ("2026-03-01", "2026-03-01"), "plain": ("today", "none")}


async def test_a_property_stored_before_the_rule_counts_as_it_did(scheduler: InProcessScheduler) -> None:
    app = App("app")
    app.schedule("s", app.bash("load", "true"), when=partitions("orders").per("date"), properties={"data": "/data"})
    await scheduler.deploy(app)
    stored = "UPDATE schedules SET definition = jsonb_set(definition, '{properties,date}', '\"old\"')"
    await scheduler.pool.execute(stored)

    await scheduler.emit(landed("orders", *days(1)))
    await scheduler.advance(timedelta(minutes=1))

    (run,) = scheduler.runs
    assert (run.arguments["date"], run.arguments["key.date"]) == ("old", "2026-03-01")


def test_the_example_in_yaml_is_the_one_in_python() -> None:
    assert load_app(str(EXAMPLE / "app.yaml")) == load_app(str(EXAMPLE / "app.py"))


@pytest.mark.long
def test_the_example_does_what_its_page_says(tmp_path: Path) -> None:
    typed = re.findall(r"^streamsched (event emit .*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    assert len(typed) == 2
    dev = DevProcess(tmp_path)
    try:
        dev.start()
        assert dev.run("deploy", str(EXAMPLE / "app.py")).code == 0
        for line in typed:
            assert dev.run(*line.split()).code == 0
        names = ("clean.1.1", "clean.1.2", "join.1.1", "join.1.2", "invoice.1.1", "close.1.1")
        runs = [f"default.sales.{name}.r1" for name in names]
        dev.until(lambda: dev.completed(*runs), within=180)
        said = sorted(dev.run("run", "logs", run).out.strip() for run in runs[:5])
        closed = dev.run("run", "show", runs[-1], "-o", "json").json
    finally:
        dev.close()

    both = [f"{name} store={store} date=2026-03-05" for name in ("clean", "join") for store in ("berlin", "paris")]
    assert said == sorted([*both, "invoice date=2026-03-05"])
    assert closed["arguments"]["date"] == "2026-03-05"


class Heard(BaseHTTPRequestHandler):
    """Keeps the paths it is asked for."""

    paths: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.paths.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Heard.paths = []
    opened = ThreadingHTTPServer(("127.0.0.1", 0), Heard)
    threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield opened
    opened.shutdown()
    opened.server_close()


CHAIN = """
from streamsched import App, event, partitions, program

app = App("kinds")
land = app.bash("land", "echo $STREAMSCHED_ARG_STORE $STREAMSCHED_ARG_KEY_DATE")
call = app.http("call", "{url}/{{store}}/{{key.date}}")
report = app.spark("report", main="report.py", arguments=["--day", "{{date}}"])
say = app.publish("say", "reported", attributes={{"date": "{{key.date}}"}})
last = app.bash("last", "cp $STREAMSCHED_RUN_FILE $STREAMSCHED_ARG_DATE.json")
app.schedule("land", land, when=partitions("orders").per("store", "date"))
app.schedule("call", call, when=program(land).per("store", "date"))
app.schedule("report", report, when=program(call, match={{"store": "berlin"}}).per("date"))
app.schedule("say", say, when=program(report).per("date"))
app.schedule("last", last, when=event("reported").per("date"))
"""
REPORT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from streamsched import current_run

spark, run = SparkSession.builder.getOrCreate(), current_run()
rows = spark.createDataFrame([(run.key,)], "key string").collect()
Path("report").write_text(" ".join([*sys.argv[1:], run.arguments["key.date"], rows[0].key]))
"""


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_key_goes_through_programs_of_every_kind(java: None, server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CHAIN.format(url=f"http://127.0.0.1:{server.server_port}"))
    (tmp_path / "report.py").write_text(REPORT)
    dev = DevProcess(tmp_path)
    try:
        dev.start()
        assert dev.run("deploy", "app.py").code == 0
        keys = ("store=berlin/date=2026-03-05", "store=paris %2F lyon/date=2026-03-06")
        assert dev.run("event", "emit", "partitions", "orders", *keys).code == 0
        names = ("land", "call", "report", "say", "last")
        runs = [f"default.kinds.{name}.1.{n}.r1" for name in names for n in ((1, 2) if name in names[:2] else (1,))]
        dev.until(lambda: dev.completed(*runs), within=300)
        said = {dev.run("run", "logs", run).out.strip() for run in runs[:2]}
    finally:
        dev.close()

    assert said == {"berlin 2026-03-05", "paris / lyon 2026-03-06"}, "values of a path are unescaped"
    assert sorted(Heard.paths) == ["/berlin/2026-03-05", "/paris%20%2F%20lyon/2026-03-06"]
    assert (tmp_path / "report").read_text() == "--day 2026-03-05 2026-03-05 2026-03-05"
    assert json.loads((tmp_path / "2026-03-05.json").read_text())["arguments"]["key.date"] == "2026-03-05"
