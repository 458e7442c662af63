"""Pages made from the functions that definitions call: triggers, constraints and policies."""

from __future__ import annotations

import json
from collections.abc import Iterable

import streamsched
from streamsched import (
    App,
    TriggerExpression,
    at,
    at_least,
    cron,
    event,
    every,
    glob,
    group,
    load,
    partitions,
    plugin,
    pool,
    program,
    rate,
    silence,
    since_last_run,
    stream_size,
    then,
    total,
    window,
)
from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.codec.schedules.expectation import expectation_to_json
from streamsched.codec.schedules.recipient import recipient_to_json
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.define.combinators import PerKey
from streamsched.domain.names import AppRef
from streamsched.domain.notices.recipient import ProgramRecipient
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import Period, period
from streamsched.domain.time.period_text import LONGEST, NoPeriod
from streamsched.domain.triggers.keys.key_value import HIVE_NULL
from tests.architecture.reference.markdown import callable_, fenced, section, table

_APP = AppRef("default", "flights")
_LEAVES = (
    *("partitions", "total", "stream_size", "program", "event", "cron", "every", "at"),
    *("since_last_run", "silence"),
)
_LIMITS = ("group", "pool", "rate", "load", "window", "plugin")
_POLICIES = ("retry", "failures", "catch_up", "start_by", "finish_by", "takes_at_most")
_SHORTHANDS = ("max_concurrent", "of", "delay", "since_last_run", "window", "wait", "constraints")

_TRIGGERS: tuple[tuple[str, TriggerExpression], ...] = (
    ('partitions("flights", 7, match={"region": "EU"})', partitions("flights", 7, match={"region": "EU"})),
    ('total("flights", "bytes", "10GB")', total("flights", "bytes", "10GB")),
    ('stream_size("clicks", "64MB")', stream_size("clicks", "64MB")),
    ('program("join", "succeeded", times=3)', program("join", "succeeded", times=3)),
    ('program("join", match={"region": "EU"})', program("join", match={"region": "EU"})),
    ('event("approved", match={"by": glob("ops-*")})', event("approved", match={"by": glob("ops-*")})),
    ('cron("0 6 * * 1-5", "Europe/Berlin")', cron("0 6 * * 1-5", "Europe/Berlin")),
    ('every("15m")', every("15m")),
    ('at("2026-01-08T04:00Z")', at("2026-01-08T04:00Z")),
    ('since_last_run("4h") | stream_size("a", "100GB")', since_last_run("4h") | stream_size("a", "100GB")),
    ('silence(event("heartbeat"), "1h")', silence(event("heartbeat"), "1h")),
    ('partitions("a") & partitions("b")', partitions("a") & partitions("b")),
    ('partitions("a") | partitions("b")', partitions("a") | partitions("b")),
    ('at_least(1, partitions("a"), partitions("b"))', at_least(1, partitions("a"), partitions("b"))),
    ('then(event("a"), event("b"), within="2h")', then(event("a"), event("b"), within="2h")),
    ('event("a").unless(event("b"), within="1h")', event("a").unless(event("b"), within="1h")),
    ('event("a").within("6h", then="fire")', event("a").within("6h", then="fire")),
    ('event("a").quiet("10m", at_most="1h")', event("a").quiet("10m", at_most="1h")),
    ('partitions("a").per("date")', partitions("a").per("date")),
    ('partitions("a").per("hour").rolled_up_to("day")', partitions("a").per("hour").rolled_up_to("day")),
    (
        '(program("b") & program("c")).per_run_of("a")',
        (program("b") & program("c")).per_run_of("a"),
    ),
    ('(program("b") & program("c")).mixed_runs()', (program("b") & program("c")).mixed_runs()),
    (
        'partitions("a").per("day", "hour").rolled_up_to("day", zone="Europe/Berlin")',
        partitions("a").per("day", "hour").rolled_up_to("day", zone="Europe/Berlin"),
    ),
)

_SPELLINGS = (
    (
        "hour",
        (
            *("2026-03-01T05", "2026-03-01 05", "2026-03-01_05", "2026-03-01-05", "2026-3-1T5", "20260301T05"),
            *(
                "2026-03-01T05:00",
                "2026-03-01 05:00:00",
                "2026-03-01T05:00:00.000",
                "2026-03-01-05-00",
                "20260301T050000",
            ),
            *("2026-03-01T05:00:00Z", "2026-03-01 05:00:00 UTC", "2026-03-01T06:00:00+01:00", "2026-03-01T06:00+0100"),
            *("2026-03-01 06:00:00+01", "2026-W09-7T05", "2026-03-01T05%3A00%3A00"),
        ),
    ),
    (
        "day",
        ("2026-03-01", "2026-3-1", "20260301", "2026-W09-7", "2026-03-01 00:00:00", "2026-03-01T00:00:00Z"),
    ),
    ("week", ("2026-W10", "2026W10", "2026-W10-1", "2026-03-02", "2026-03-02 00:00:00")),
    ("month", ("2026-03", "2026-3", "202603", "2026-03-01", "2026-03-01 00:00:00")),
    ("year", ("2026", "2026-01-01", "2026-01-01 00:00:00")),
)
_IN_ZONES = (
    ("Europe/Berlin", "2026-03-01T05", Grain.HOUR),
    ("Europe/Berlin", "2026-03-01T05:00:00Z", Grain.HOUR),
    ("Europe/Berlin", "2026-02-28T23:00:00Z", Grain.DAY),
    ("Europe/Berlin", "2026-10-25T02", Grain.HOUR),
    ("Europe/Berlin", "2026-10-25T01:00:00Z", Grain.HOUR),
    ("Europe/Berlin", "2026-03-29T02", Grain.HOUR),
    ("Asia/Kolkata", "2026-03-01T05:00:00Z", Grain.HOUR),
    ("Pacific/Apia", "2011-12-30", Grain.DAY),
)

_CONSTRAINTS = (
    ('group("warehouse", 4, weight=2)', group("warehouse", 4, weight=2)),
    ('pool("nightly", 4, priority=10)', pool("nightly", 4, priority=10)),
    ('rate(10, per="1h", burst=2)', rate(10, per="1h", burst=2)),
    ('load("main", free_cores=(8, 4), running=10)', load("main", free_cores=(8, 4), running=10)),
    ('window("22:00", "06:00", "Europe/Berlin")', window("22:00", "06:00", "Europe/Berlin")),
    ('plugin("quiet-hours", file="/etc/quiet")', plugin("quiet-hours", file="/etc/quiet")),
)


def triggers_page() -> str:
    lines = [
        "# Triggers",
        "",
        "Made from `streamsched/define/`; `make docs` writes it again. A trigger is the `when=` of",
        "[`App.schedule`](policies.md). Durations are texts such as `90s`, `2h30m`, `7d`; sizes are bytes or texts",
        "such as `64MB` (1000²) and `64MiB` (1024²). A name without a namespace is in the namespace of the app.",
        "Zones, daylight saving and missed ticks: [time](../explanation/time.md).",
        "",
        "## Leaves",
        "",
        *_functions(_LEAVES),
        *callable_("glob", glob),
        *callable_("calendar", streamsched.calendar),
        "## Combinations",
        "",
        "`a & b` holds when both hold, `a | b` when either does. A satisfied branch stays satisfied until the whole",
        "trigger fires. Combinations nest to any depth.",
        "",
        *_functions(("at_least", "then")),
        *_methods(TriggerExpression, ("within", "quiet", "unless", "per", "per_run_of", "mixed_runs")),
        *_methods(PerKey, ("rolled_up_to", "fanned_out_to", "each")),
        *_periods(),
        "## JSON and YAML",
        "",
        "The fields of `trigger` in a schedule's document:",
        "",
        *_examples((source, trigger_codec.to_json(expression.build(_APP))) for source, expression in _TRIGGERS),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _periods() -> list[str]:
    """The spellings of periods, each read by the code."""
    return [
        "## Periods",
        "",
        "A key with a grain is a period, and all spellings of one instant are one key. Runs get its canonical text:",
        "`2026-03-01T05`, `2026-03-01`, `2026-W09`, `2026-03` or `2026`. A text names the period that begins at the",
        "time it gives; a time inside a period names none, and neither does a text of another form: `2026-03-01` is no",
        f"hour. A text has at most {LONGEST} characters, which may be escaped as in Hive's folders (`%3A`).",
        "",
        *table(
            ("grain", "spellings", "key"),
            (
                (grain, ", ".join(f"`{each}`" for each in texts), f"`{_key(grain, texts)}`")
                for grain, texts in _SPELLINGS
            ),
        ),
        "",
        "With a zone, a text without an offset is read on the clock of the zone, one with an offset is converted.",
        "Days have the hours that the clock shows. Of two hours with one name in autumn the second is written with",
        "its offset; without one the first is meant. An hour or a day that clocks skip is none:",
        "",
        *table(
            ("zone", "text", "key"),
            ((f"`{zone}`", f"`{text}`", _shown(period(text, grain, zone))) for zone, text, grain in _IN_ZONES),
        ),
        "",
        "Without a zone wall-clock time counts as it is, `Z` is left out, other offsets are converted to UTC. Every",
        "day has 24 hours.",
        "",
        f"`{HIVE_NULL}` is never the value of a key, with or without a grain. An event without a key does not",
        "count; `event why` and `schedule show` say which column is missing, or which text names nothing.",
        "",
        "[Wait for whole days](../how-to/wait-for-whole-days.md) uses this. In JSON and YAML keys are texts where",
        "`grain` is missing, whatever the columns are named.",
        "",
    ]


def _key(grain: str, texts: Iterable[str]) -> str:
    (key,) = {_shown(period(text, Grain(grain))) for text in texts}
    return key.strip("`")


def _shown(found: Period | NoPeriod) -> str:
    return f"`{found.key}`" if isinstance(found, Period) else f"none: {found.why}"


def constraints_page() -> str:
    lines = [
        "# Constraints",
        "",
        "Made from `streamsched/define/`; `make docs` writes it again. A satisfied job becomes a run when all",
        "constraints of its schedule hold. They are checked together, and the run's row is stored in the same",
        "transaction. A constraint that does not hold makes the job wait, or ends it as `ABORTED` with `wait=False`.",
        "`streamsched job why` shows each constraint, what it needs, and when it can change.",
        "",
        "## Arguments of `App.schedule`",
        "",
        *table(("argument", "meaning"), ((f"`{n}`", t) for n, t in _arguments() if n in _SHORTHANDS)),
        "",
        "## Entries of `constraints=`",
        "",
        *_functions(_LIMITS),
        "## JSON and YAML",
        "",
        *_examples((source, constraint_codec.to_json(each)) for source, each in _CONSTRAINTS),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def policies_page() -> str:
    lines = [
        "# Policies",
        "",
        "Made from `streamsched/define/`; `make docs` writes it again. Policies are the remaining arguments of",
        "`App.schedule`; [constraints](constraints.md) and [triggers](triggers.md) have pages of their own.",
        "",
        *table(("argument", "meaning"), ((f"`{n}`", t) for n, t in _arguments() if n not in _SHORTHANDS)),
        "",
        "## Values",
        "",
        *_functions(_POLICIES),
        "## Programs",
        "",
        *_methods(App, ("spark", "bash", "python", "http", "publish"), owner="app"),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def expectations_page() -> str:
    app = App("shop")
    rescue = app.bash("rescue", "./rescue.sh")
    app.schedule("daily", rescue, when=streamsched.partitions("flights").per("region", "day"))
    app.expect("flights", by="08:00", zone="Europe/Berlin", on="MON-FRI", partition="day={day}", then=rescue)
    app.expect(schedule="daily", by="usual", key="region=EU/day={day}")
    app.expect("clicks", by=":15", every="hour")
    recipients = {
        'mail("team@example.org", recovered=True)': streamsched.mail("team@example.org", recovered=True),
        'webhook("chat", schedules=["daily"])': streamsched.webhook("chat", schedules=["daily"]),
        "rescue": ProgramRecipient(program="rescue"),
    }
    expected = [(str(each), expectation_to_json(each)) for each in app.definition().expectations]
    lines = [
        "# Expectations and notifications",
        "",
        "Made from `streamsched/define/`; `make docs` writes it again. What must be there by which time, and who is",
        "notified of failures: [be notified of late data](../how-to/be-notified-of-late-data.md).",
        "",
        *_methods(App, ("expect", "on_failure"), owner="app"),
        *_functions(("mail", "webhook")),
        "## JSON and YAML",
        "",
        "Entries of `expectations` in an app's document:",
        "",
        *_examples(expected),
        "Entries of `onFailure`:",
        "",
        *_examples((source, recipient_to_json(each)) for source, each in recipients.items()),
        "## Arguments of programs",
        "",
        "A program that a miss starts (`then=`) has, under `expectation.`: `expectation`, `dataset` or `schedule`,",
        "`due_at`, `when`, `key`, `missing`, `why`. One that `on_failure` names has, under `failure.`: `count`,",
        "`kind`, `subject`, `subjects`, `at`, `headline`, `reason`, `link`, `log_tail`, of the last failure. In a",
        "`bash` program they are variables such as `$STREAMSCHED_ARG_EXPECTATION_KEY`.",
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _arguments() -> list[tuple[str, str]]:
    return section(App.schedule.__doc__, "Args")


def _functions(names: Iterable[str]) -> list[str]:
    return [line for name in names for line in callable_(name, getattr(streamsched, name))]


def _methods(owner_type: type, names: Iterable[str], owner: str = "a") -> list[str]:
    return [line for name in names for line in callable_(f"{owner}.{name}", getattr(owner_type, name))]


def _examples(examples: Iterable[tuple[str, object]]) -> list[str]:
    lines: list[str] = []
    for source, document in examples:
        lines += [f"`{source}`:", "", *fenced("json", json.dumps(document, indent=2, ensure_ascii=False)), ""]
    return lines
