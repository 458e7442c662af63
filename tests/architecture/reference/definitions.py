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
        *_methods(TriggerExpression, ("within", "quiet", "unless", "per")),
        *_methods(PerKey, ("rolled_up_to", "fanned_out_to")),
        "## JSON and YAML",
        "",
        "The fields of `trigger` in a schedule's document:",
        "",
        *_examples((source, trigger_codec.to_json(expression.build(_APP))) for source, expression in _TRIGGERS),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


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
        "notified of failures: [be told when data is late](../how-to/be-told-when-data-is-late.md).",
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
