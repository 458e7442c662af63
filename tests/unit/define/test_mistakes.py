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
#: Files that are not what their ending says, or whose code is wrong.
FILES: Final[tuple[tuple[str, str], ...]] = (
    ("app.yaml", "application: flights\n  programs: []\n"),
    ("app.yaml", "application: flights\nprograms:\n\t- name: a\n"),
    ("app.yaml", "application: flights\napplication: weather\n"),
    ("app.yaml", "application: yes\n"),
    ("app.yaml", "- application: flights\n"),
    ("app.yaml", ""),
    ("app.yaml", "application: &a [*a]\n"),
    (
        "app.yaml",
        "application: flights\nschedules: {s: {program: p, trigger: {type: TIME, cronExpression: * * * * *}}}\n",
    ),
    ("app.json", '{"application": "flights",}'),
    ("app.json", "{'application': 'flights'}"),
    ("app.json", '"flights"'),
    ("app.json", "[" * 100_000),
    ("app.py", "from streamsched import App\n"),
    ("app.py", "from streamsched import App\na, b = App('a'), App('b')\n"),
    ("app.py", "from streamsched import App\napp = App('a b')\n"),
    ("app.py", "from streamsched import Ap\n"),
    ("app.py", "from streamsched import App\napp = App('a'\n"),
    (
        "app.py",
        "from streamsched import App, partitions\napp = App('a')\napp.schedule('s', 'nothing', when=partitions('x'))\n",
    ),
    (
        "app.py",
        "from streamsched import App, partitions\napp = App('a')\nj = app.bash('j', 'ls')\napp.schedule('s', j)\n",
    ),
    (
        "app.py",
        "from streamsched import App, partitions\napp = App('a')\nj = app.bash('j', 'ls')\n"
        "app.schedule('s', j, when=partitions('x') and partitions('y'))\n",
    ),
    (
        "app.py",
        "from streamsched import App, partitions\napp = App('a')\nj = app.bash('j', 'ls')\n"
        "app.schedule('s', j, when=partitions('x', '7'))\n",
    ),
    (
        "app.py",
        "from streamsched import App, cron\napp = App('a')\nj = app.bash('j', 'ls')\n"
        "app.schedule('s', j, when=cron('0 4 * * *', zone='Berlin'))\n",
    ),
    (
        "app.py",
        "from streamsched import App, partitions\napp = App('a')\nj = app.bash('j', 'ls')\n"
        "app.schedule('s', j, when=partitions('x'))\napp.schedule('s', j, when=partitions('y'))\n",
    ),
)


#: The beginning of a file in YAML, with a program and a schedule of which the last line is to follow.
PROGRAM: Final = "application: flights\nprograms:\n  join: {type: bash, command: ls}\n"
SCHEDULE: Final = f"{PROGRAM}schedules:\n  weekly:\n    program: join\n"
TRIGGERED: Final = f"{SCHEDULE}    trigger: {{type: PARTITION, dataset: flights, numPartitions: 7}}\n"
#: What YAML reads otherwise than it looks, and how its layout goes wrong.
LAYOUTS: Final[tuple[str, ...]] = (
    "application:flights\n",
    "application: flights\nprograms:\njoin: {type: bash, command: ls}\n",
    "application: flights\nprograms:\n  join:\n  type: bash\n  command: ls\n",
    "application: flights\nprograms:\n  - join:\n      type: bash\n      command: ls\n",
    "application: flights\nprograms:\n  - type: bash\n    command: ls\n",
    "application: flights\nprograms:\n  join: {type: bash, command: {day}}\n",
    "application: flights\nprograms:\n  join:\n    type: bash\n    command: echo a: b\n",
    "application: flights\nprograms:\n  join:\n    type: bash\n    command: @daily\n",
    "application: flights\nprograms:\n  join:\n    type: bash\n    command: %d\n",
    'application: flights\nprograms:\n  join:\n    type: bash\n    command: "ls\n',
    "application: flights\nprograms:\n  join:\n    type: bash\n    command: 'it's'\n",
    "application: flights\nprograms:\n  join:\n    type: bash\n    command: 7\n",
    "application: flights\nprograms:\n  join:\n    type: bash\n    command:\n",
    "application: flights\nprograms:\n  join: {type: bash, command: ls, env: {DEBUG: yes}}\n",
    "application: flights\nprograms:\n  join: {type: bash, command: ls, env: {VERSION: 1.10}}\n",
    "application: flights\nprograms:\n  join: {type: bash, command: ls, defaults: {day: 2026-03-01}}\n",
    "application: flights\nprograms:\n  no: {type: bash, command: ls}\n",
    "application: flights\nprograms:\n  1: {type: bash, command: ls}\n",
    f"{PROGRAM}  join: {{type: bash, command: pwd}}\n",
    f"{PROGRAM}schedules: weekly\n",
    f"{PROGRAM}schedules:\n  - weekly\n",
    f"{SCHEDULE}   trigger: {{type: PARTITION, dataset: flights}}\n",
    f"{SCHEDULE}    trigger: {{type: PARTITION, dataset: flights\n",
    f"{SCHEDULE}    trigger: {{type: PARTITION dataset: flights}}\n",
    f"{SCHEDULE}    trigger: {{type: PARTITION, dataset: flights, numPartitions: 1e1}}\n",
    f"{SCHEDULE}    trigger: {{type: PARTITION, dataset: flights, numPartitions: 7.0}}\n",
    f"{SCHEDULE}    trigger: {{type: TIME, cronExpression: 0 4 * * *, timeZone: Berlin}}\n",
    f"{SCHEDULE}    trigger:\n      type: TIME\n      cronExpression: * 4 * * *\n",
    f"{SCHEDULE}    trigger:\n      - type: PARTITION\n        dataset: flights\n",
    f"{TRIGGERED}    enabled: on\n    enabled: off\n",
    f"{TRIGGERED}    enabled: 1\n",
    f"{TRIGGERED}    timeout: 12:00\n",
    f"{TRIGGERED}    timeout: 1 day\n",
    f"{TRIGGERED}    description: 2026-03-01\n",
    f"{TRIGGERED}    description: ~\n",
    f"{TRIGGERED}    properties: {{day: 01}}\n",
    f"{TRIGGERED}    constraints: {{type: TIME_RANGE, startTime: '22:00', endTime: '06:00'}}\n",
    f"{TRIGGERED}    constraints: [{{type: TIME_RANGE, startTime: 22:00, endTime: 6:00, timeZone: UTC}}]\n",
    f"{TRIGGERED}    retry: {{attempts: three}}\n",
    f"{TRIGGERED}    retry: attempts 3\n",
    f"{TRIGGERED}    overlap: queue  coalesce\n",
    f"{PROGRAM}---\n{PROGRAM}",
    f"{PROGRAM}expectations:\n  flights: {{dataset: flights, by: 8:00}}\n",
    f"{PROGRAM}expectations:\n  flights: {{dataset: flights, by: '8 am'}}\n",
    f"{PROGRAM}expectations:\n  flights: {{by: '08:00'}}\n",
    f"{PROGRAM}calendars:\n  holidays: [2026-13-01]\n",
    f"{PROGRAM}tasks:\n  report: {{job_id: '{{date'}}\n",
    f"{PROGRAM}onFailure: team@example.org\n",
    "application: !!python/object/apply:os.getcwd []\n",
    "application: flights # the app\nprograms: [join: {type: bash}]\n",
    "\ufeffapplication: flights\n",
    "application: fl\u0000ights\n",
    "application: \u201cflights\u201d\n",
)
#: The lines after the imports and `app = App("a")` and a program `j`.
CODE: Final[tuple[str, ...]] = (
    "app.schedule('s', j, when='0 4 * * *')",
    "app.schedule('s', j, when=cron('0 4 * *'))",
    "app.schedule('s', j, when=cron('0 0 4 * * *'))",
    "app.schedule('s', j, when=cron('0 4 * * *', 'CET+1'))",
    "app.schedule('s', j, when=cron)",
    "app.schedule('s', j, when=every(5))",
    "app.schedule('s', j, when=every('5 minutes'))",
    "app.schedule('s', j, when=partitions('my data'))",
    "app.schedule('s', j, when=partitions('x', 0))",
    "app.schedule('s', j, when=partitions('x', count=7))",
    "app.schedule('s', j, when=partitions('x') or partitions('y'))",
    "app.schedule('s', j, when=not partitions('x'))",
    "app.schedule('s', j, when=partitions('x') + partitions('y'))",
    "app.schedule('s', j, when=[partitions('x'), partitions('y')])",
    "app.schedule('s', j, when=partitions('x').per())",
    "app.schedule('s', j, when=partitions('x').per('a day'))",
    "app.schedule('s', j, when=partitions('x').within(3))",
    "app.schedule('s', j, when=event('a b'))",
    "app.schedule('s', j, when=program('j', 'done'))",
    "app.schedule('s', j, when=program('a.b.c.d'))",
    "app.schedule('s', j, when=stream_size('clicks', '64'))",
    "app.schedule('s', j, partitions('x'))",
    "app.schedule('my schedule', j, when=partitions('x'))",
    "app.schedule(j, when=partitions('x'))",
    "app.schedule('s', j, when=partitions('x'), max_concurrent=0)",
    "app.schedule('s', j, when=partitions('x'), max_concurrent='1')",
    "app.schedule('s', j, when=partitions('x'), delay=60)",
    "app.schedule('s', j, when=partitions('x'), timeout='12 hours')",
    "app.schedule('s', j, when=partitions('x'), overlap='wait')",
    "app.schedule('s', j, when=partitions('x'), retry=3)",
    "app.schedule('s', j, when=partitions('x'), retry=retry('three'))",
    "app.schedule('s', j, when=partitions('x'), window='22:00-06:00')",
    "app.schedule('s', j, when=partitions('x'), window=window('22', '6'))",
    "app.schedule('s', j, when=partitions('x'), constraints=pool('night', 2))",
    "app.schedule('s', j, when=partitions('x'), constraints=[pool('night')])",
    "app.schedule('s', j, when=partitions('x'), constraints=['night'])",
    "app.schedule('s', j, when=partitions('x'), properties={'n': 1})",
    "app.schedule('s', j, when=partitions('x'), enabled='no')",
    "app.schedule('s', j, when=partitions('x'), cron='0 4 * * *')",
    "app.bash('j', 'pwd')",
    "app.bash('k')",
    "app.bash('k', ['ls', '-l'])",
    "app.bash('k k', 'ls')",
    "app.spark('k', 'k.py')",
    "app.spark('k', main='')",
    "app.spark('k', main='k.scala')",
    "app.spark('k', main='k.py', executors=4)",
    "app.spark('k', main='k.py', conf={'spark.executor.instances': 4})",
    "app.spark('k', main='k.py', deploy_mode='clutser')",
    "app.python('k', 'k')",
    "app.python('k', 'k.py', arguments='--day')",
    "app.publish('k', 'a b')",
    "app.http('k', 'a.example')",
    "app.task('t', j, job_id='{date')",
    "app.task('t', j, job_id='{date}', depends_on='nothing')",
    "app.task('t', j, job_id='{date}', depends_on='t')",
    "app.task('t', j, job_id='{date}', components={'date': 'day'})",
    "app.expect('flights', by='8 am')",
    "app.expect('flights')",
    "app.expect(by='08:00')",
    "app.expect('flights', by='08:00', every='daily')",
    "app.expect('flights', by='08:00', zone='Berlin')",
    "app.run()",
    "raise ValueError('no connection')",
    "import nothing_of_this_name",
    "import sys; sys.exit(3)",
    "from streamsched import Partitions",
    "app = 'a'",
    "app = None",
    "def app(): pass",
    "schedule('s', j, when=partitions('x'))",
    "app.schedule('s', j when=partitions('x'))",
    " app.schedule('s', j, when=partitions('x'))",
)
HEAD: Final = "from streamsched import *\napp = App('a')\nj = app.bash('j', 'ls')\n"
#: Beginnings that titles leave out.
USUAL: Final = (HEAD, TRIGGERED, SCHEDULE, PROGRAM)
#: Targets that are no app, or not there.
TARGETS: Final[tuple[str, ...]] = (
    "nothing.yaml",
    "nothing.py",
    "app.py:",
    "app.py:other",
    "app.py:j",
    "app.txt",
    "app",
    "folder",
    "nothing_of_this_name",
    "app.yaml:app",
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
