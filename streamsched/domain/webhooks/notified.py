"""Which lines of the history a recipient of an app is notified of."""

from __future__ import annotations

from streamsched.domain.names import AppRef
from streamsched.domain.notices.recipient import ProgramRecipient, Recipient
from streamsched.domain.webhooks.change import WorkLine


def is_for(recipient: Recipient, app: AppRef, line: WorkLine) -> bool:
    """Whether a line about something of the app is for the recipient. A program is not started by its own failures."""
    if not (line.is_failure or (line.is_recovery and recipient.recovered)):
        return False
    if isinstance(recipient, ProgramRecipient) and line.program == f"{app}.{recipient.program}":
        return False
    return not recipient.schedules or _schedule(line) in {f"{app}.{name}" for name in recipient.schedules}


def _schedule(line: WorkLine) -> str | None:
    match line.kind:
        case "schedule":
            return line.subject
        case "expectation":
            return (line.detail or {}).get("schedule")
        case _:
            return line.schedule
