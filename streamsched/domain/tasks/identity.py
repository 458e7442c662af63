"""Names of queues, lanes and tasks, and the ids derived from them.

An id is a function of the names, so a repeated registration finds the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import check_queue_name

#: The longest lane and the longest key, in characters: an index entry holds 2704 bytes.
LONGEST_KEY: Final = 600

_BYTES: Final = 16


@dataclass(frozen=True, slots=True, order=True)
class TaskLane:
    """A lane: tasks of one queue that go one after another.

    >>> TaskLane("mail", "customer-7").id == TaskLane("mail", "customer-7").id
    True

    Raises:
        InvalidError: a name is empty, too long, or cannot be stored.
    """

    queue: str
    name: str

    def __post_init__(self) -> None:
        check_queue_name(self.queue, "$.queue")
        _check_text(self.name, "$.lane")

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
        return _digest(self.queue, self.name)


def partition_of(lane_id: str, partitions: int) -> int:
    """Which of so many partitions a lane is put into, by its id: the same in every release and in SQL
    (`task_partition_v1`).
    """
    return int(lane_id[:8], 16) % partitions


def task_id(lane: TaskLane, key: str, due_at: datetime | None = None) -> str:
    """32 hexadecimal digits: the id of a task by its key in its lane, and also by its due time where that belongs to
    the identity (`QueuePolicy.identity`).

    Raises:
        InvalidError: the key is empty, too long, or cannot be stored.
    """
    check_task_key(key)
    return _digest(lane.queue, lane.name, key, "" if due_at is None else due_at.astimezone(UTC).isoformat())


def check_task_key(key: str) -> None:
    """Raises:
    InvalidError: it is empty, longer than `LONGEST_KEY`, or cannot be stored.
    """
    _check_text(key, "$.key")


def _check_text(text: str, path: str) -> None:
    if not text:
        raise InvalidError(path, "must not be empty")
    if len(text) > LONGEST_KEY:
        raise InvalidError(path, f"must have at most {LONGEST_KEY} characters but has {len(text)}")
    if "\0" in text or not _is_encodable(text):
        raise InvalidError(path, "must not contain NUL or a lone surrogate")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _digest(*parts: str) -> str:
    """A hash of the parts, each with its length, so that no two lists of parts have the same text."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode(), digest_size=_BYTES).hexdigest()
