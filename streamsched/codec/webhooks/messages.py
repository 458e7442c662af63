"""Changes, and messages for people about several of them, as tasks of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from streamsched.codec.webhooks.cloud_event import STRUCTURED, event_of
from streamsched.codec.webhooks.notification import NOTICE, notice
from streamsched.domain.notices.notification import MOST_SHOWN
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.webhooks.change import WorkLine


def notice_task(lines: Sequence[WorkLine], pages: str, *, lane: str, recipient: str = "") -> TaskRequest:
    """The task of a message for people about these lines; its id depends on them and the lane only."""
    message = f"{lines[0].id}-{lines[-1].number}"
    events = [event_of(line, pages) for line in lines[:MOST_SHOWN]]
    kinds = Counter(line.change for line in lines)
    data = notice(message, events, len(lines), kinds, recipient=recipient)
    return TaskRequest(key=f"{lines[0].number:019d}", lane=lane, data=data, content_type=NOTICE)


def change_task(line: WorkLine, pages: str) -> TaskRequest:
    """The task of a change. Those of a schedule, or of a program alone, share a lane, in the order of their numbers."""
    return TaskRequest(key=f"{line.number:019d}", lane=line.owner, data=event_of(line, pages), content_type=STRUCTURED)
