"""A change of a job or run, and what else went wrong, as a CloudEvent 1.0, which a webhook sends.

{"specversion": "1.0", "id": "17-1772366400000000", "source": "streamsched/default", "type": "streamsched.run.failed",
 "subject": "default.flights.weekly.1.7.r1", "time": "2026-03-01T12:00:00Z", "datacontenttype": "application/json",
 "data": {"state": "FAILED", "reason": "exit code 1", "schedule": …, "program": …, "job": …, "run": …, "attempt": 1,
          "failed": "run", "log_tail": "…", "link": "https://…/ui/runs/…"}}

`failed` (`run`, `launch` or `overdue`) is there with the last attempt, `log_tail` where there is a log, `link` where
the installation knows the address of its pages. Of an expectation, data has its facts instead of job and run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import orjson

from streamsched.codec.events.cloudevents import PREFIX
from streamsched.domain.webhooks.change import WorkLine

#: The content type of structured mode.
STRUCTURED: Final = "application/cloudevents+json"
#: That of several events as a list.
BATCH: Final = "application/cloudevents-batch+json"
_JSON: Final = "application/json"
#: What an event has of the details of a line.
_DETAILS: Final = frozenset(
    {"failed", "log_tail", "expectation", "dataset", "schedule", "due_at", "when", "key", "missing", "why", "came_at"}
    | {"late"}
)
#: Most characters of a reason, and of each detail: an event is stored as a task, whose size is bounded.
_LONGEST_REASON: Final = 10_000
_LONGEST_DETAIL: Final = 2000
#: The type of the event that `webhook test` sends.
TEST: Final = PREFIX + "webhook.test"
#: Attributes that are headers in binary mode.
_ATTRIBUTES: Final = ("specversion", "id", "source", "type", "subject", "time")


def event_of(line: WorkLine, pages: str = "") -> bytes:
    """The structured event of a change. `pages`: the address of the installation's pages."""
    data: dict[str, object] = {"state": line.state, "reason": line.reason[:_LONGEST_REASON]}
    match line.kind:
        case "expectation" | "schedule":
            data |= {"schedule": line.subject} if line.kind == "schedule" else {}
        case _:
            job = line.subject if line.kind == "job" else line.job
            data |= {"schedule": line.schedule, "program": line.program, "job": job}
    if line.kind == "run":
        data |= {"run": line.subject, "attempt": line.attempt}
    data |= {name: _cut_text(value) for name, value in (line.detail or {}).items() if name in _DETAILS}
    if pages:
        data["link"] = f"{pages}/ui/{line.kind}s/{quote(line.subject, safe='')}"
    return _event(line.id, PREFIX + line.change, (line.namespace, line.subject), line.at, data)


def _cut_text(value: object) -> object:
    """The end of a text that is too long: that of a log says why."""
    return value[-_LONGEST_DETAIL:] if isinstance(value, str) else value


def trial_event(message: str, namespace: str, webhook: str, at: datetime) -> bytes:
    """An event without a change, for trying a receiver."""
    return _event(message, TEST, (namespace, webhook), at, {"webhook": webhook})


def message_id(event: bytes) -> str:
    """The id of a structured event."""
    return orjson.loads(event)["id"]


def binary(event: bytes) -> tuple[Mapping[str, str], bytes]:
    """A structured event in binary mode: headers and body. Values are percent-encoded as the HTTP binding asks."""
    read = orjson.loads(event)
    headers = {f"ce-{name}": quote(read[name], safe=_UNQUOTED) for name in _ATTRIBUTES}
    return {**headers, "Content-Type": _JSON}, orjson.dumps(read["data"])


def _event(message: str, kind: str, of: tuple[str, str], at: datetime, data: Mapping[str, object]) -> bytes:
    namespace, subject = of
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": message,
        "source": f"streamsched/{namespace}",
        "type": kind,
        "subject": subject,
        "time": at,
        "datacontenttype": _JSON,
        "data": data,
    }
    return orjson.dumps(event, option=orjson.OPT_UTC_Z)


#: Printable ASCII without the characters that the binding encodes: space, double quote and percent.
_UNQUOTED: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
