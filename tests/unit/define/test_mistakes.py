"""The hundreds of most common mistakes in files of apps, in JSON, YAML and Python, and what is said about each:
`tests/golden/mistakes/said.txt`, which `UPDATE_GOLDEN=1` writes again. Compare it before and after a change of readers:
no message may become worse.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest

import streamsched
from streamsched.define.loading import load_app
from streamsched.domain.errors import StreamschedError
from tests.unit.define.mistaken_files import CODE, FILES, HEAD, LAYOUTS, PROGRAM, TARGETS, USUAL

SAID: Final = Path(__file__).parents[2] / "golden" / "mistakes" / "said.txt"
GOOD: Final[dict[str, Any]] = {
    "application": "flights",
    "programs": {"join": {"type": "spark", "main": "join.py"}, "tell": {"type": "http", "url": "https://a.example/"}},
    "schedules": {
        "weekly": {
            "program": "join",
            "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
            "constraints": [{"type": "CONCURRENCY", "maxConcurrency": 1}],
            "retry": {"attempts": 3},
            "timeout": "12h",
        }
    },
}
NOTHING: Final = object()


def app_with(path: str, value: Any) -> dict[str, Any]:
    """The good app with a member set, or left out."""
    app: Any = deepcopy(GOOD)
    *above, last = path.split("/")
    found = app
    for each in above:
        found = found[int(each)] if isinstance(found, list) else found[each]
    if value is NOTHING:
        del found[last]
    elif isinstance(found, list):
        found[int(last)] = value
    else:
        found[last] = value
    return app


WEEKLY: Final = "schedules/weekly"
TRIGGER: Final = f"{WEEKLY}/trigger"
FIRST: Final = f"{WEEKLY}/constraints/0"
#: What was changed in the good app, as JSON.
MEMBERS: Final[tuple[tuple[str, Any], ...]] = (
    ("application", NOTHING),
    ("application", "my flights"),
    ("application", 7),
    ("namespace", "team-a"),
    ("aplication", "flights"),
    ("programs", []),
    ("programs", "join"),
    ("programs/join/type", NOTHING),
    ("programs/join/type", "sprak"),
    ("programs/join/main", NOTHING),
    ("programs/join/main", ""),
    ("programs/join/main", ["join.py"]),
    ("programs/join/mian", "join.py"),
    ("programs/join/command", "ls"),
    ("programs/join/name", "join"),
    ("programs/join/conf", ["spark.executor.memory=4g"]),
    ("programs/join/conf", {"spark.executor.instances": 4}),
    ("programs/join/deploy_mode", "clutser"),
    ("programs/join/args", "--day"),
    ("programs/join/defaults", {"day": 1}),
    ("programs/join/executors", {"memory": "4 gigs"}),
    ("programs/tell/url", "a.example"),
    ("programs/tell/url", "ftp://a.example/"),
    ("programs/tell/method", "FETCH"),
    ("programs/tell/headers", ["Accept: text/plain"]),
    ("programs/tell/timeout", 30),
    ("programs/tell/body", {"day": "{day}"}),
    ("schedules", NOTHING),
    ("schedules", "weekly"),
    (WEEKLY, None),
    (f"{WEEKLY}/program", NOTHING),
    (f"{WEEKLY}/program", "jion"),
    (f"{WEEKLY}/program", ["join", "tell"]),
    (f"{WEEKLY}/trigger", NOTHING),
    (f"{WEEKLY}/trigger", "0 4 * * *"),
    (f"{WEEKLY}/trigger", []),
    (f"{WEEKLY}/triger", {"type": "TIME"}),
    (f"{WEEKLY}/enabled", "yes"),
    (f"{WEEKLY}/timeout", "12 hours"),
    (f"{WEEKLY}/timeout", 12),
    (f"{WEEKLY}/timeout", "-1h"),
    (f"{WEEKLY}/timeout", "9999999999d"),
    (f"{WEEKLY}/timeout", "0s"),
    (f"{WEEKLY}/overlap", "queued"),
    (f"{WEEKLY}/misfire", "ignore"),
    (f"{WEEKLY}/maxDuration", "six hours"),
    (f"{WEEKLY}/properties", {"day": 1}),
    (f"{WEEKLY}/properties", ["day=1"]),
    (f"{WEEKLY}/retry", 3),
    (f"{WEEKLY}/retry/attempts", 0),
    (f"{WEEKLY}/retry/attempts", 1.5),
    (f"{WEEKLY}/retry/attempts", "3"),
    (f"{WEEKLY}/retry/on", ["timeouts"]),
    (f"{WEEKLY}/constraints", {"type": "CONCURRENCY"}),
    (f"{WEEKLY}/constraints", "CONCURRENCY"),
    (f"{FIRST}/type", "CONCURENCY"),
    (f"{FIRST}/type", NOTHING),
    (f"{FIRST}/maxConcurrency", 0),
    (f"{FIRST}/maxConcurrency", NOTHING),
    (f"{FIRST}/max", 1),
    (f"{FIRST}/waitUntilMet", "true"),
    (FIRST, {"type": "TIME_RANGE", "startTime": "22", "endTime": "06:00", "timeZone": "Europe/Berlin"}),
    (FIRST, {"type": "TIME_RANGE", "startTime": "25:00", "endTime": "06:00", "timeZone": "Europe/Berlin"}),
    (FIRST, {"type": "TIME_RANGE", "startTime": "22:00", "endTime": "06:00", "timeZone": "Berlin"}),
    (FIRST, {"type": "TIME_RANGE", "startTime": "22:00", "endTime": "22:00", "timeZone": "UTC"}),
    (FIRST, {"type": "DELAY", "millisAfterTrigger": "1h"}),
    (FIRST, {"type": "LAST_RUN", "millisSinceLastRun": -1}),
    (FIRST, {"type": "POOL", "pool": "nightly", "size": 0}),
    (FIRST, {"type": "GROUP", "group": "w", "limit": 2, "weight": 3}),
    (FIRST, {"type": "RATE", "maxRuns": 10}),
    (f"{TRIGGER}/type", NOTHING),
    (f"{TRIGGER}/type", "PARTITIONS"),
    (f"{TRIGGER}/type", 3),
    (f"{TRIGGER}/dataset", NOTHING),
    (f"{TRIGGER}/dataset", "my data"),
    (f"{TRIGGER}/dataset", None),
    (f"{TRIGGER}/numPartitions", 0),
    (f"{TRIGGER}/numPartitions", "7"),
    (f"{TRIGGER}/numPartitions", 10**19),
    (f"{TRIGGER}/count", 7),
    (TRIGGER, {"type": "TIME", "cronExpression": "0 4 * *"}),
    (TRIGGER, {"type": "TIME", "cronExpression": "0 25 * * *"}),
    (TRIGGER, {"type": "TIME", "cronExpression": "@daily at 4"}),
    (TRIGGER, {"type": "TIME", "cronExpression": "0 0 30 2 *"}),
    (TRIGGER, {"type": "TIME", "cronExpression": "0 4 * * MONDAY"}),
    (TRIGGER, {"type": "TIME", "cronExpression": "0 4 * * *", "timeZone": "CEST"}),
    (TRIGGER, {"type": "EVERY", "interval": 300}),
    (TRIGGER, {"type": "EVERY", "interval": "5 min"}),
    (TRIGGER, {"type": "STREAM_SIZE", "streamId": "clicks", "triggerMB": "64MB"}),
    (TRIGGER, {"type": "PROGRAM_STATUS", "programId": "join", "programStatuses": "COMPLETED"}),
    (TRIGGER, {"type": "PROGRAM_STATUS", "programId": "join", "programStatuses": ["DONE"]}),
    (TRIGGER, {"type": "AND", "triggers": []}),
    (TRIGGER, {"type": "AND", "triggers": [{"type": "PARTITION", "dataset": "a"}, {"type": "PARTITOIN"}]}),
    (TRIGGER, {"type": "OR", "triggers": {"type": "PARTITION", "dataset": "a"}}),
    (TRIGGER, {"type": "PER", "trigger": {"type": "PARTITION", "dataset": "a"}}),
    (TRIGGER, {"type": "EVENT", "event": "a b"}),
    (TRIGGER, {"partitions": "flights", "count": 7}),
)


def mistakes(folder: Path) -> Iterator[tuple[str, Path]]:
    """A title and a file with each mistake."""
    for number, (path, value) in enumerate(MEMBERS):
        file = folder / f"{number}" / "app.json"
        file.parent.mkdir()
        file.write_text(json.dumps(app_with(path, value)))
        yield f"{path} {'is left out' if value is NOTHING else f'= {json.dumps(value)[:120]}'}", file
    files = (
        *FILES,
        *(("app.yaml", text) for text in LAYOUTS),
        *(("app.py", f"{HEAD}{line}\n") for line in CODE),
    )
    for number, (name, text) in enumerate(files, len(MEMBERS)):
        file = folder / f"{number}" / name
        file.parent.mkdir()
        file.write_text(text)
        usual = next((each for each in USUAL if text.startswith(each)), "")
        yield f"{name}: {'… ' if usual else ''}{text.removeprefix(usual)[:200]!r}", file
    (folder / "folder").mkdir()
    for name in ("app.py", "app.yaml", "app.txt", "app"):
        (folder / name).write_text(HEAD if name == "app.py" else PROGRAM)
    for target in TARGETS:
        yield f"target {target!r}", folder / target


def said(file: Path) -> str:
    """What loading the file says: one line, or more of Python's own errors; without paths of this machine."""
    try:
        load_app(str(file))
    except StreamschedError as error:
        return str(error).replace(f"{file.parent}/", "").replace(f" ({streamsched.__file__})", "")
    return "accepted"


def test_the_hundred_most_common_mistakes_are_told_as_before(tmp_path: Path) -> None:
    found = "".join(f"{title}\n    {said(file)}\n" for title, file in mistakes(tmp_path))
    if os.environ.get("UPDATE_GOLDEN"):
        SAID.write_text(found)
    assert found == SAID.read_text()


def test_there_are_a_hundred_in_json_and_in_other_files() -> None:
    assert len(MEMBERS) + len(FILES) >= 100
    assert len(LAYOUTS) + len(CODE) >= 100


def test_the_good_app_is_good(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_text(json.dumps(GOOD))
    assert said(tmp_path / "app.json") == "accepted"


@pytest.mark.parametrize("line", SAID.read_text().splitlines() if SAID.exists() else [])
def test_no_message_names_the_code(line: str) -> None:
    assert "Traceback" not in line
    assert "NoneType" not in line
