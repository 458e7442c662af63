"""The CloudEvents of changes as notifications for people, and the messages of one or several of them that are put into
queues: `{"id": …, "recipient": …, "count": 3, "kinds": {"run.failed": 3}, "events": [CloudEvent, …]}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from streamsched.codec.events.cloudevents import PREFIX
from streamsched.domain.names import DEFAULT_NAMESPACE
from streamsched.domain.notices.notification import MOST_LOGS, Digest, Notification

#: The content type of a message for people in a queue.
NOTICE: Final = "application/vnd.streamsched.notice+json"
_TITLES: Final[Mapping[str, str]] = {
    "run.failed": "failed",
    "run.lost": "was lost",
    "run.killed": "was ended",
    "run.recovered": "is well again",
    "run.completed": "completed",
    "deadline.missed": "missed a deadline",
    "expectation.missed": "is not there",
    "expectation.met_late": "came late",
    "schedule.paused": "paused itself",
    "webhook.test": "is tried out",
}
#: Bytes of the events of a message.
_ROOM: Final = 200_000
#: Parts of a subject that name the schedule or program.
_OWNER: Final = 3
_HOW: Final[Mapping[str, str]] = {"launch": "could not be started", "overdue": "took too long"}


def notice(
    message: str, events: Sequence[bytes], count: int, kinds: Mapping[str, int], *, recipient: str = ""
) -> bytes:
    """A message with these events, of `count` in all, as it is put into a queue: with the logs that are shown, and as
    many events as have room. `message`: its id; `recipient`: of an app, by its id.
    """
    listed, room = list[dict[str, Any]](), _ROOM
    for place, event in enumerate(map(orjson.loads, events)):
        if place >= MOST_LOGS:
            event["data"].pop("log_tail", None)
        room -= len(orjson.dumps(event))
        if listed and room < 0:
            break
        listed.append(event)
    made = {"id": message, "recipient": recipient, "count": count, "kinds": dict(kinds), "events": listed}
    return orjson.dumps(made)


def recipient_of(data: bytes) -> str:
    """The id of the recipient of a message."""
    return orjson.loads(data)["recipient"]


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The events of a message."""
    return orjson.loads(data)["events"]


def digest_of(data: bytes) -> Digest:
    """What a message, or a single event, says."""
    read = orjson.loads(data)
    if "events" not in read:
        return Digest((notification_of(read),))
    kinds: Mapping[str, int] = read["kinds"] if read["count"] > 1 else {}
    return Digest(tuple(notification_of(each) for each in read["events"]), read["count"], kinds)


def notification_of(event: Mapping[str, Any]) -> Notification:
    """An event (`codec.webhooks.cloud_event`) as a notification."""
    data, kind = event["data"], event["type"].removeprefix(PREFIX)
    namespace = event["source"].partition("/")[2]
    owner = ".".join(event["subject"].split(".", _OWNER)[:_OWNER])
    about = data.get("schedule") or data.get("dataset") or data.get("program") or owner
    title = _HOW.get(str(data.get("failed", ""))) or _TITLES.get(kind) or kind.replace(".", " ").replace("_", " ")
    facts = {name: data.get(name) for name in ("run", "attempt", "job", "program", "expectation", "key", "due_at")}
    return Notification(
        kind=kind,
        at=datetime.fromisoformat(event["time"]).astimezone(UTC),
        namespace=namespace,
        about=_short_name(str(about)),
        title=title,
        reason=str(data.get("reason") or ""),
        facts={name.replace("_", " "): str(value) for name, value in facts.items() if value},
        link=str(data.get("link") or ""),
        log_tail=str(data.get("log_tail") or ""),
        next_steps=tuple(_next_steps(kind, event["subject"], data)),
    )


def _next_steps(kind: str, subject: str, data: Mapping[str, Any]) -> list[str]:
    """Commands that help; names are those of the product, without characters that a shell would read."""
    run, job, schedule = data.get("run"), data.get("job"), data.get("schedule")
    steps = {
        "run.failed": [f"streamsched run logs {run}", f"streamsched run rerun {run}"],
        "run.lost": [f"streamsched run show {run}", f"streamsched run rerun {run}"],
        "run.killed": [f"streamsched run logs {run}", f"streamsched run rerun {run}"],
        "deadline.missed": [f"streamsched job why {job}"],
        "expectation.missed": [
            f"streamsched expectation show {subject}",
            *([f"streamsched schedule why-not {schedule}"] if schedule else []),
        ],
        "schedule.paused": [f"streamsched schedule history {subject}", f"streamsched schedule resume {subject}"],
    }
    return steps.get(kind, [])


def _short_name(name: str) -> str:
    return name.removeprefix(f"{DEFAULT_NAMESPACE}.")
