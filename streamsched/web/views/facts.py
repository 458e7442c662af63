"""What an event says, in words, and the verdicts on it; what a run's engine reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.events.event import CustomHappened, Fact, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.limits import longer
from streamsched.domain.signals.verdict import Verdict
from streamsched.store.web.activity_reads import EventVerdicts
from streamsched.web.views.names import dataset_href, run_href, short_name
from streamsched.web.views.states import StateWord
from streamsched.web.views.times import duration_words

#: Keys of partitions that are named in a line.
_NAMED: Final = 3
_SECOND: Final = timedelta(seconds=1)
_UNITS: Final = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))

_VERDICT_TONES: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        Verdict.COUNTED: "ok",
        Verdict.REPLACED: "ok",
        Verdict.CORRECTION: "wait",
        Verdict.UNMATCHED: "off",
        Verdict.DUPLICATE: "off",
        Verdict.LATE: "wait",
        Verdict.NO_LISTENER: "wait",
        Verdict.DISABLED: "off",
        Verdict.REFUSED: "bad",
        Verdict.PARKED: "bad",
        Verdict.DEAD_LETTERED: "bad",
    }
)


class FactWords(NamedTuple):
    """A fact as a kind, what it is about, and the rest. `href`: the page of what it is about; empty without one."""

    kind: str
    about: str
    href: str
    text: str


def fact_words(fact: Fact) -> FactWords:
    """The words of a fact."""
    match fact:
        case PartitionsAdded(dataset=ref, partitions=partitions, count=count):
            named = ", ".join(each.key for each in partitions[:_NAMED])
            more = f" and {count - _NAMED} more" if count > _NAMED and named else ""
            text = f"{named}{more}" if named else f"{count:,} partitions"
            return FactWords("partitions", short_name(ref), dataset_href(ref), text)
        case StreamSize(stream=ref, bytes=size, absolute=absolute):
            return FactWords("stream", short_name(ref), "", f"{'is' if absolute else 'grew by'} {size_words(size)}")
        case ProgramReached(program=ref, run_id=run, outcome=outcome):
            return FactWords("program", short_name(ref), run_href(run), f"{outcome}: {short_name(run)}")
        case CustomHappened(name=ref, attributes=attributes):
            text = ", ".join(f"{name}={value}" for name, value in list(attributes.items())[:_NAMED])
            return FactWords("event", short_name(ref), "", text)
        case Ticked(schedule=ref):
            return FactWords("tick", short_name(ref), "", "")
        case _:
            assert_never(fact)


def verdict_word(verdict: Verdict, count: int = 1) -> StateWord:
    """A verdict; with how often it was given, when more than once."""
    word = verdict.replace("_", " ")
    return StateWord(_VERDICT_TONES[verdict], f"{word} × {count}" if count > 1 else word)


def verdict_words(found: Iterable[EventVerdicts]) -> dict[tuple[str, str], list[StateWord]]:
    """The verdicts of events, by id and source; those without a source are of unreadable ones."""
    words: dict[tuple[str, str], list[StateWord]] = {}
    counted = [(Verdict(each.verdict), each) for each in found]
    for verdict, each in sorted(counted, key=lambda one: list(Verdict).index(one[0])):
        words.setdefault((each.event, each.source), []).append(verdict_word(verdict, each.number))
    return words


def size_words(size: int | None) -> str:
    """`1.2 GB`; a dash for None."""
    if size is None:
        return "–"
    for unit, least in _UNITS:
        if abs(size) >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size} B"


def run_facts(metrics: RunMetrics) -> list[tuple[str, str]]:
    """What a run's engine reports of it: names and texts of which there is something to say."""
    failed = f", {metrics.tasks_failed:,} failed" if metrics.tasks_failed else ""
    more = "" if metrics.complete else " so far"
    now = f"{metrics.executors:,} now, " if not metrics.complete else ""
    found = [
        ("stages", f"{metrics.stages_done:,} of {metrics.stages:,}{more}"),
        ("tasks", f"{metrics.tasks_done:,} of {metrics.tasks:,}{more}{failed}"),
        ("executors", f"{now}at most {metrics.executors_peak:,} at a time"),
    ]
    if metrics.executor_seconds:
        spent, busy = (duration_words(longer(_SECOND, n)) for n in (metrics.executor_seconds, metrics.task_seconds))
        found.append(("executor time", f"{spent}, of which tasks ran {busy}"))
    for name, size, rows in (
        ("input", metrics.input_bytes, metrics.input_rows),
        ("output", metrics.output_bytes, metrics.output_rows),
    ):
        if size or rows:
            found.append((name, f"{size_words(size)}, {rows:,} rows"))
    if metrics.shuffle_read_bytes or metrics.shuffle_write_bytes:
        read, written = size_words(metrics.shuffle_read_bytes), size_words(metrics.shuffle_write_bytes)
        found.append(("shuffle", f"{read} read, {written} written"))
    if metrics.spilled_bytes:
        found.append(("spilled to disk", size_words(metrics.spilled_bytes)))
    if metrics.peak_memory_bytes:
        found.append(("peak memory", f"{size_words(metrics.peak_memory_bytes)} of one executor"))
    return found
