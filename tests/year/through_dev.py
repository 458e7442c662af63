"""The year through a real `streamsched dev`: an arrival day after another, and after each what `dataset show` says.

Nothing here needs a clock: days stay open, corrections make jobs at once, and a late commit says when it happened.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.dev_process import DevProcess
from tests.year.differences import Differences, YearOutcome
from tests.year.drawn_year import LATE, MARKED, ZONES, Write, Year
from tests.year.naive_model import DayJob, NaiveYear, ShownDay, Waiting

_FOR_EVER: Final = timedelta(days=30_000)
#: The schedules, as the app below says. `by_day` follows `daily`.
SCHEDULES: Final = (
    Waiting("daily", tuple(ZONES), timedelta(0), _FOR_EVER, late_counts=True),
    Waiting("first", ("berlin",), None, _FOR_EVER),
    Waiting("strict", ("new-york",), None, _FOR_EVER, late_counts=False),
    Waiting("on_spark", ("berlin",), None, _FOR_EVER, marked=True),
)
FOLLOWS: Final = "by_day"
_MARK: Final = {MARKED[0]: MARKED[1]}
APP: Final = f"""
from streamsched import App, partitions, program

app = App("year")
quick = {{"spark.ui.enabled": "false"}}
day = {{"day": "{{day}}"}}
joined = app.publish("joined", "year-joined", attributes=day)
note = app.publish("note", "year-note", attributes=day)
count = app.spark("count", main="count.py", conf=quick)


def days(dataset, columns, zone, then, **wanted):
    return partitions(dataset, **wanted).per(*columns, on_correction=then).rolled_up_to("day", zone=zone)


def berlin(then, **wanted):
    return days("berlin", ["hour"], "Europe/Berlin", then, **wanted)


def new_york(then):
    return days("new-york", ["hour"], "America/New_York", then)


daily = berlin("rerun") & new_york("rerun") & days("delhi", ["day", "hour"], "Asia/Kolkata", "rerun")
app.schedule("daily", joined, when=daily, overlap="queue", late=("{LATE.seconds}s", "accept"))
app.schedule("first", note, when=berlin("ignore"), overlap="queue")
app.schedule("strict", note, when=new_york("ignore"), overlap="queue", late=("{LATE.seconds}s", "side"))
app.schedule("{FOLLOWS}", note, when=program(joined).per("day", on_correction="rerun"), overlap="queue")
app.schedule("on_spark", count, when=berlin("ignore", match={_MARK!r}), overlap="queue")
"""
COUNT: Final = """
from pyspark.sql import SparkSession

from streamsched import current_run

run = current_run()
spark = SparkSession.builder.getOrCreate()
hours = spark.createDataFrame([(each.key,) for each in run.new_partitions("berlin")], "key string")
print(run.arguments["day"], hours.distinct().count())
spark.stop()
"""
#: Newest partitions of a dataset that are compared.
_ROWS: Final = 60
#: Records of the shard that are searched, and how many of the newest commits of a dataset are among them at least. Of a
#: day that has older ones, which hours came late or were written again is not compared.
_SHALLOW: Final = (2_000, 150)
_DEEP: Final = (10_000, 1_000)
#: Every so many arrival days the deep search is compared.
_DEEP_EVERY: Final = 10
_PAGE: Final = 1000
#: Seconds within which what the log has must be seen.
_WITHIN_S: Final = 120.0


def run(folder: Path, year: Year, *, show: Callable[[str], None] = lambda _: None) -> YearOutcome:
    """What differs between `dev` and the naive model."""
    (folder / "app.py").write_text(APP)
    (folder / "count.py").write_text(COUNT)
    dev = DevProcess(folder)
    try:
        said = dev.start()
        deployed = dev.run("deploy", "app.py", within=120)
        assert deployed.code == 0, said + deployed.out + deployed.err
        with httpx.Client(base_url=_url(dev), headers=dev.authorization, timeout=60) as api:
            through = _Through(api, NaiveYear.of(SCHEDULES), year, show)
            through.emit()
            return through.settle()
    finally:
        dev.close()


def _url(dev: DevProcess) -> str:
    return json.loads((dev.state / "dev.json").read_text())["url"]


class _Through:
    """One `dev` beside one model."""

    def __init__(self, api: httpx.Client, model: NaiveYear, year: Year, show: Callable[[str], None]) -> None:
        self._differences = Differences(show)
        self._api = api
        self._model = model
        self._year = year
        self._show = show

    def emit(self) -> None:
        """All commits, an arrival day after another; after each what is shown of the datasets is compared."""
        for number, (day, some) in enumerate(groupby(self._year.writes, lambda write: write.at.date()), 1):
            batch = list(some)
            answer = self._api.post("/v1/events", json=[_event(each) for each in batch], params={"check": "none"})
            assert answer.status_code == httpx.codes.ACCEPTED, answer.text
            assert answer.json()["accepted"] == len(batch)
            for write in batch:
                self._model.take(write)
            for dataset in ZONES:
                self._compare_dataset(dataset, day, *_SHALLOW)
                if number % _DEEP_EVERY == 0:
                    self._compare_dataset(dataset, day, *_DEEP)
            if number % 30 == 0:
                self._show(f"{day}: {self._model.number_of_jobs} jobs so far")

    def _compare_dataset(self, dataset: str, day: date, depth: int, read: int) -> None:
        old = {str(each.day) for each in self._model.newest[dataset][:-read]}
        wanted = self._wanted(dataset, old)
        deadline = time.monotonic() + _WITHIN_S
        while True:
            found = _shown(self._ask(f"/v1/datasets/default/{dataset}", limit=_ROWS, depth=depth), old)
            if found == wanted or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for name in sorted(wanted.keys() | found.keys()):
            self._differences.compare(f"{day} {dataset} {name}", wanted.get(name, []), found.get(name, []))

    def _wanted(self, dataset: str, old: Collection[str]) -> dict[str, list[str]]:
        """What `dataset show` is to say, as lines. `old`: days that have commits which are not searched."""
        found: dict[str, list[str]] = {}
        lacking = False
        for name, schedule in self._model.schedules.items():
            if dataset in schedule.waiting.datasets:
                days = schedule.newest_days(dataset)
                shown = schedule.shown_days(dataset, self._model.commits[dataset], days)
                more = f"{len(schedule.incomplete()) - len(shown)} more"
                found[f"keys of {name}"] = [*(_key_line(each, old) for each in shown), more]
                lacking = lacking or any(each.missing for each in shown)
        found["completeness"] = ["incomplete" if lacking else "as expected"]
        found["partitions"] = list(self._rows(dataset))
        return found

    def _rows(self, dataset: str) -> Iterator[str]:
        """The newest commit of each partition, the newest first."""
        newest = self._model.newest[dataset]
        listed = list({each.partition: None for each in reversed(newest)})[:_ROWS]
        commits = defaultdict[str, list[Write]](list)
        for each in newest:
            commits[each.partition].append(each)
        for partition in listed:
            last = commits[partition][-1]
            yield str((partition, last.id, last.late, len(commits[partition]) - 1))

    def settle(self) -> YearOutcome:
        """Compares all jobs, once every run has ended."""
        wanted = self._wanted_runs()
        number = sum(map(len, wanted.values()))
        deadline = time.monotonic() + 600
        runs = self._runs()
        while (len(runs) < number or not all(each["endedAt"] for each in runs)) and time.monotonic() < deadline:
            time.sleep(1)
            runs = self._runs()
        found = _listed(runs)
        for name in sorted(wanted.keys() | found.keys()):
            self._differences.compare(f"jobs of {name}", wanted.get(name, []), found.get(name, []))
        self._differences.compare("runs", ["COMPLETED"] * number, [each["state"] for each in runs])
        return self._differences.outcome(number)

    def _wanted_runs(self) -> dict[str, list[str]]:
        wanted = {
            name: [
                str((f"default.year.{name}.1.{job.number}", str(job.day), job.corrects, _corrected(job)))
                for job in schedule.jobs
            ]
            for name, schedule in self._model.schedules.items()
        }
        days = defaultdict[date, int](int)
        follows: list[str] = []
        for job in self._model.schedules["daily"].jobs:
            days[job.day] += 1
            follows.append(f"{job.day} run {days[job.day]}{' corrects' if days[job.day] > 1 else ''}")
        return {**wanted, FOLLOWS: sorted(follows)}

    def _runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self._ask("/v1/runs", app="default.year", limit=_PAGE, after=after)
            found += page["runs"]
            after = page.get("next", "")
            if not after:
                return found

    def _ask(self, path: str, **params: Any) -> Any:
        answer = self._api.get(path, params=params)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()


def _corrected(job: DayJob) -> list[str]:
    return sorted(partition for _, partition in job.given) if job.corrects else []


def _event(write: Write) -> Mapping[str, Any]:
    """The commit as an emitter sends it now: it took as long as in the year."""
    happened = datetime.now(UTC) - (write.at - write.happened)
    data = {"dataset": write.dataset, "partitions": [{"key": write.partition, "values": dict(write.columns)}]}
    return {
        "id": write.id,
        "source": "year",
        "time": happened.isoformat(),
        "type": "partitions.added",
        "data": data,
    }


def _shown(found: Mapping[str, Any], old: Collection[str]) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for each in found["rollUps"]:
        keys = [_key_line(_shown_day(one), old) for one in each["keys"]]
        lines[f"keys of {each['schedule'].rpartition('.')[2]}"] = [*keys, f"{each['moreKeys']} more"]
    lines["completeness"] = [found["completeness"]]
    lines["partitions"] = [
        str((each["partition"], each["event"], each["late"], each["rewritten"])) for each in found["partitions"]
    ]
    return lines


def _shown_day(key: Mapping[str, Any]) -> ShownDay:
    lists = (tuple(key[name]) for name in ("missingPeriods", "late", "rewritten"))
    return ShownDay(key["key"], key["expected"], key["present"], *lists)


def _key_line(day: ShownDay, old: Collection[str]) -> str:
    return str(tuple(day[:4] if day.day in old else day))


def _listed(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The runs of each schedule, in order of their jobs; of one that follows, day by day."""
    found = defaultdict[str, list[tuple[int, str]]](list)
    of_day = defaultdict[str, list[tuple[int, bool]]](list)
    for run in runs:
        name, arguments = run["schedule"].rpartition(".")[2], run["arguments"]
        number = int(run["job"].rpartition(".")[2])
        corrects = arguments.get("trigger.corrects", "")
        if name == FOLLOWS:
            of_day[arguments["day"]].append((number, bool(corrects)))
            continue
        given = sorted(filter(None, arguments.get("trigger.corrected", "").split(", ")))
        which = int(corrects.rpartition(".")[2]) if corrects else 0
        found[name].append((number, str((run["job"], arguments["trigger.key"], which, given))))
    follows = [
        f"{day} run {place}{' corrects' if corrects else ''}"
        for day, some in of_day.items()
        for place, (_, corrects) in enumerate(sorted(some), 1)
    ]
    return {**{name: [line for _, line in sorted(some)] for name, some in found.items()}, FOLLOWS: sorted(follows)}
