"""What pages show, from values alone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.catalog.upcoming_ticks import UpcomingTick
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.domain.triggers.trigger import AllOf, AnyOf, Every, Partitions
from streamsched.store.web.page_reads import WaitingJob, WorkCounts
from streamsched.web.pages.login import own_path
from streamsched.web.pages.schedule_actions import arguments_of
from streamsched.web.views.commands import SameAs, schedule_action
from streamsched.web.views.facts import run_facts
from streamsched.web.views.health import HealthLine, headline
from streamsched.web.views.names import add_links, shorten
from streamsched.web.views.states import StateWord
from streamsched.web.views.strips import SLOTS, StripBar, bar, strip, tick_slots, time_line
from streamsched.web.views.times import TimeTexts, coarse_words, duration_words
from streamsched.web.views.trigger_tree import open_leaves, tree_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&"


def text_of(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "under 0.1 s"),
        (0.4, "0.4 s"),
        (59, "59 s"),
        (220, "3 min 40 s"),
        (7200, "2 h"),
        (7201, "2 h"),
        (97_200, "1 d 3 h"),
        (-5, "5 s"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, words: str) -> None:
    assert duration_words(timedelta(seconds=seconds)) == words


@given(st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=4000)))
def test_a_duration_in_words_is_not_far_from_it(span: timedelta) -> None:
    sizes = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    parts = re.findall(r"(\d+) (d|h|min|s)", duration_words(span))
    assert len(parts) <= 2
    meant = sum(int(number) * sizes[unit] for number, unit in parts)
    least = sizes[parts[0][1]]
    assert meant - 1 <= span.total_seconds() < meant + max(1, least)
    assert coarse_words(span) == " ".join(parts[0])


def test_times_have_the_instant_on_hover_in_the_readers_zone() -> None:
    times = TimeTexts(NOW, ZoneInfo("Europe/Berlin"))
    found = times.relative_text(NOW - timedelta(minutes=12))
    assert text_of(found) == "12 min ago"
    assert 'datetime="2026-03-01T11:48:00Z" title="2026-03-01 12:48:00 Europe/Berlin"' in found
    assert text_of(times.relative_text(NOW + timedelta(hours=3))) == "in 3 h"
    assert [text_of(times.clock(NOW + timedelta(hours=h))) for h in (1, 30, 24 * 40)] == [
        "14:00",
        "Mon 19:00",
        "2026-04-10 14:00",
    ]
    assert text_of(times.relative_text(None)) == "–"


@given(
    st.text(alphabet='ab.<>&"default_-1 ', max_size=60),
    st.lists(st.sampled_from(["a.b", "a.b.1", "b<", "d"]), max_size=3),
)
def test_links_change_no_word_of_a_sentence(sentence: str, names: list[str]) -> None:
    found = add_links(sentence, dict.fromkeys(names, "/x"))
    assert text_of(found).replace("default.", "") == shorten(sentence).replace("default.", "")
    assert "<script" not in found


def test_only_whole_names_are_linked() -> None:
    hrefs = {"default.a.b": "/ui/schedules/default.a.b"}
    assert "<a" in add_links("it waits for default.a.b, since 3 s", hrefs)
    assert "<a" in add_links("it waits for default.a.b.", hrefs)
    assert "<a" not in add_links("it waits for default.a.b.1.2.r1 and default.a.b-c and x.default.a.b", hrefs)


def test_nothing_hostile_leaves_a_view_unescaped() -> None:
    flights = Partitions(DatasetRef("default", "flights"), 2)
    bars = [StripBar(HOSTILE, StateWord("ok", HOSTILE), timedelta(seconds=1))]
    for found in (
        add_links(HOSTILE, {}),
        add_links(HOSTILE, {HOSTILE: HOSTILE}),
        strip(bars),
        time_line([frozenset({1})], NOW),
    ):
        assert "<script" not in found
        assert "alert(1)</" not in found
    assert tree_of(flights, {"text": HOSTILE, "have": 1, "need": 2}).text == HOSTILE  # escaped by the template


def test_the_tree_of_a_trigger_without_progress_needs_everything() -> None:
    flights, weather = (Partitions(DatasetRef("default", name), 7) for name in ("flights", "weather"))
    tree = tree_of(AllOf((flights, AnyOf((weather, flights)))), None)
    assert (tree.have, tree.need, tree.text) == (0, 2, "")
    assert [leaf.text for leaf in open_leaves(tree)] == [
        "7 new partitions of flights",
        "7 new partitions of weather",
        "7 new partitions of flights",
    ]
    assert tree.children[1].need == 1
    stored = {"text": "x", "have": 1, "need": 2, "children": [{"text": "a", "have": 7, "need": 7, "holds": True}]}
    assert open_leaves(tree_of(flights, stored)) == []


def test_the_headline_says_the_worst_first_and_what_is_next() -> None:
    quiet = WorkCounts(ended=9)
    schedule = Schedule(
        ScheduleRef("default", "app", "s"), ProgramRef("default", "app", "p"), Every(timedelta(hours=1))
    )
    record = ScheduleRecord(schedule, generation=1, enabled=True, created_at=NOW, updated_at=NOW)
    soon = NOW + timedelta(minutes=20)
    tick = UpcomingTick(record, "every", "every 1h", soon, soon)

    well = headline(quiet, waiting=(), missed=0, missing=0, health=(), upcoming=[tick], times=TimeTexts(NOW, UTC))
    assert (well.tone, text_of(well.text)) == (
        "ok",
        "No run failed in the last 24 hours, and no job waits. Next is app.s, in 20 min.",
    )
    waiting = [WaitingJob("n.a.s.1.1", None, None, "", NOW - timedelta(minutes=12))]
    some = quiet._replace(failed=2, waiting=3)
    health = [HealthLine("wait", "shards", "behind"), HealthLine("bad", "outbox", "no process works it off")]
    wrong = headline(some, waiting=waiting, missed=1, missing=2, health=health, upcoming=(), times=TimeTexts(NOW, UTC))
    assert wrong.tone == "bad"
    assert text_of(wrong.text) == (
        "Outbox: no process works it off; 2 of 9 runs failed in the last 24 hours; a job missed its deadline; "
        "2 expectations are missing; shards: behind; 3 jobs wait, the longest for 12 min."
    )


def test_every_form_that_changes_something_shows_its_command() -> None:
    folder = files("streamsched.web").joinpath("templates")
    found = {each.name: each.read_text() for each in folder.iterdir()}
    forms = {
        name: text.count('<form method="post"') - len(re.findall(r'action="/ui/(display|log(in|out))"', text))
        for name, text in found.items()
    }
    assert sum(forms.values()) > 15
    assert [
        name
        for name, number in forms.items()
        if number > found[name].count('class="cli"') + found[name].count("parts.same(")
    ] == []


def test_the_metrics_of_a_run_are_lines() -> None:
    metrics = RunMetrics(
        stages=3, stages_done=1, tasks=200, tasks_done=50, tasks_failed=2, executors=2, executors_peak=4
    )
    assert run_facts(metrics) == [
        ("stages", "1 of 3 so far"),
        ("tasks", "50 of 200 so far, 2 failed"),
        ("executors", "2 now, at most 4 at a time"),
    ]
    over = replace(
        metrics,
        complete=True,
        input_bytes=2_500_000,
        input_rows=1000,
        spilled_bytes=10,
        peak_memory_bytes=10**9,
        shuffle_read_bytes=1,
        executor_seconds=90,
        task_seconds=30,
    )
    assert [name for name, _ in run_facts(over)] == [
        *("stages", "tasks", "executors", "executor time", "input", "shuffle", "spilled to disk", "peak memory")
    ]
    longest = dict(run_facts(replace(metrics, executor_seconds=2**63 - 1)))
    assert longest["executor time"] == "365250 d, of which tasks ran under 0.1 s"


def test_a_strip_shows_the_newest_and_says_them_in_words() -> None:
    ok, bad = StateWord("ok", "completed"), StateWord("bad", "failed")
    bars = [StripBar(f"j{n}", bad if n == 19 else ok, timedelta(seconds=n + 1)) for n in range(20)]
    found = strip(bars)
    assert found.count("<rect") == 1 + 14  # and the line that they stand on
    assert "The last 14: 13 completed, 1 failed" in found
    assert text_of(strip([])) == "no runs yet"
    assert "style=" not in found + bar(1, 2) + time_line([], NOW)  # the policy refuses styles in attributes


def test_a_schedule_with_more_ticks_than_computed_ticks_to_the_end_of_the_line() -> None:
    ticks = [NOW + timedelta(minutes=n) for n in range(40)]
    assert tick_slots(ticks, NOW, cut=False) == {0, 1}
    assert tick_slots(ticks, NOW, cut=True) == set(range(SLOTS))
    assert tick_slots([], NOW, cut=False) == frozenset()


@pytest.mark.parametrize(
    "wanted",
    ["https://evil.example/ui/", "//evil.example/ui/", "/v1/apps", "javascript:alert(1)", "/ui/\\evil", "/ui/\n", ""],
)
def test_a_login_leads_to_our_pages_only(wanted: str) -> None:
    assert own_path(wanted) == "/ui/"


def test_a_login_leads_back_with_its_filters() -> None:
    assert own_path("/ui/schedules?q=a&state=paused") == "/ui/schedules?q=a&state=paused"


def test_arguments_are_lines() -> None:
    assert arguments_of("day=2026-03-01\n\n a = b=c \n") == {"day": "2026-03-01", "a": "b=c"}
    with pytest.raises(Exception, match="'day' is not of the form NAME=VALUE"):
        arguments_of("day")


def test_an_action_says_the_same_in_a_terminal() -> None:
    same = schedule_action("http://h:1", "default.a.b", "pause", ["--note", "it's late"], {"note": "it's late"})
    assert same == SameAs(
        "streamsched schedule pause a.b --note 'it'\"'\"'s late'",
        "curl -X POST -H \"Authorization: Bearer $STREAMSCHED_TOKEN\" -H 'Content-Type: application/json' "
        '-d \'{"note": "it\'"\'"\'s late"}\' http://h:1/v1/schedules/default.a.b/pause',
    )
