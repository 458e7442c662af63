"""What a dataset's view makes of the records of its log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from streamsched.api.dataset_view import _commits, _partitions
from streamsched.api.reads.logged_events import LoggedEvent
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef

AT = datetime(2026, 3, 1, tzinfo=UTC)


def logged(number: int, name: str, rows: int | None) -> LoggedEvent:
    partition = Partition(f"run={name}", {"run": name}, None, rows)
    at = AT + timedelta(hours=number)
    event = Event(name, "s", AT, PartitionsAdded(DatasetRef("default", "flights"), (partition,), 1))
    return LoggedEvent(f"partitions/0/{number}", at, name, "s", event, "", b"")


def test_a_repeat_is_no_other_commit_and_gives_its_statistics_to_one_without() -> None:
    """Newest first; the first statistics count, as in totals."""
    said = [("a", None), ("b", 7), ("a", 5), ("b", None), ("a", 9), ("c", None)]
    newest_first = [logged(number, *each) for number, each in enumerate(said)][::-1]

    found = _partitions(list(_commits(newest_first)), {"b"})

    assert [(each.key, each.rows, each.at - AT, each.late, each.rewritten) for each in found] == [
        ("run=c", None, timedelta(hours=5), False, 0),
        ("run=b", 7, timedelta(hours=1), True, 0),
        ("run=a", 5, timedelta(hours=0), False, 0),
    ]
