"""All spans in one table; the page `docs/reference/spans.md` is made from it."""

from __future__ import annotations

from typing import Final, NamedTuple


class SpanRow(NamedTuple):
    """A row of the table.

    Attributes:
        begins, ends: what the times of the span are the times of.
        parent: its parent, and what it is linked to.
        error: when its status is an error.
    """

    name: str
    kind: str
    begins: str
    ends: str
    parent: str
    attributes: tuple[str, ...]
    error: str = "never"


SPANS: Final = (
    SpanRow(
        "emit",
        "producer",
        "the API has read the event",
        "the log has acknowledged it",
        "the context that the event or the request came with; without one there is no span",
        ("streamsched.event.id", "streamsched.event.key"),
    ),
    SpanRow(
        "job",
        "consumer",
        "the trigger was satisfied (log time), or a person submitted it",
        "a run was launched, or the job ended without one",
        "the event that satisfied the trigger; none when time did, a person submitted it, or that event has no "
        "context. Links: the contexts of its other events, at most 32",
        (
            "streamsched.job",
            "streamsched.state",
            "streamsched.schedule",
            "streamsched.generation",
            "streamsched.program",
            "streamsched.events.contexts",
        ),
        "ABORTED, TIMED_OUT or LAUNCH_FAILED",
    ),
    SpanRow(
        "complete",
        "internal",
        "the trigger was satisfied (log time)",
        "the job was stored in PostgreSQL",
        "`job`; a submission has none",
        ("streamsched.job",),
    ),
    SpanRow(
        "decide",
        "internal",
        "the job was stored",
        "its first run was admitted, or it ended without one",
        "`job`",
        ("streamsched.job", "streamsched.waited_s", "streamsched.waited_for"),
    ),
    SpanRow(
        "launch",
        "internal",
        "the run was admitted; of a further attempt, planned",
        "its process began, or it ended without one",
        "`job`; none of a manual run",
        ("streamsched.run", "streamsched.attempt", "streamsched.program", "streamsched.state"),
        "the run ended before its process began",
    ),
    SpanRow(
        "run",
        "internal",
        "its process began",
        "it ended",
        "`launch`",
        (
            "streamsched.run",
            "streamsched.attempt",
            "streamsched.program",
            "streamsched.state",
            "streamsched.exit_code",
        ),
        "FAILED, KILLED or LOST",
    ),
)

#: Attribute → what it is.
ATTRIBUTES: Final = {
    "streamsched.attempt": "number of the attempt, from 1",
    "streamsched.event.id": "id of the event, its first 200 characters",
    "streamsched.event.key": "event key, such as `partition:default.flights`",
    "streamsched.events.contexts": "different contexts among the first 10,000 events of the job",
    "streamsched.exit_code": "exit code of the process, if it had one",
    "streamsched.generation": "generation of the schedule",
    "streamsched.job": "id of the job",
    "streamsched.program": "name of the program",
    "streamsched.run": "id of the run",
    "streamsched.schedule": "name of the schedule",
    "streamsched.state": "state of the job or the run at its end",
    "streamsched.waited_for": "what the last check found missing: `time`, `runs`, `group …`, `pool …`, `cluster …`, "
    "`plug-in …`; at most 8, separated by commas",
    "streamsched.waited_s": "seconds from the job's row to its admission or end",
}
