"""The trial of a webhook: one event beside the changes that wait, and the answer of its target."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import Annotated, Final

from streamsched.api.deps import ApiServices
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.webhooks.cloud_event import STRUCTURED, trial_event
from streamsched.domain.errors import ConflictError
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.domain.tasks.task_retry import BackoffRetry

#: Seconds for which a trial waits for its end, and between two reads.
_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.1
_ONCE: Final = BackoffRetry(retries=0)


@dataclass(frozen=True, slots=True)
class Trial:
    """`task`: the id of its task. `accepted`: None: nothing was sent yet. `answer`: why, as a line."""

    task: str
    accepted: bool | None
    answer: Annotated[str, About("HTTP 204")]


TRIAL: Final = JsonShape(Trial, "WebhookTest", outside=("task",))


async def send_trial(services: ApiServices, webhook: str) -> Trial:
    """Has a launcher send one event of type `streamsched.webhook.test`, and waits up to 20 s for the answer.

    Raises:
        ConflictError: the webhook is disabled.
        NotFoundError: there is none.
    """
    record = await services.webhooks.store.get(webhook)
    if not record.enabled:
        raise ConflictError(f"webhook '{webhook}' is disabled")
    found = record.webhook
    now, message = services.clock.now(), f"test-{secrets.token_hex(8)}"
    event = trial_event(message, found.namespace, found.id, now)
    request = TaskRequest(key=message, data=event, content_type=STRUCTURED, retry=_ONCE)
    made = await services.webhooks.store.put(found.id, request, now=now)
    waited_s = 0.0
    while waited_s < _PATIENCE_S:
        task = await services.tasks.registry.get(made)
        if task.state in (TaskState.SUCCEEDED, TaskState.FAILED):
            return Trial(made, task.state is TaskState.SUCCEEDED, task.reason)
        await asyncio.sleep(_LOOK_S)
        waited_s += _LOOK_S
    return Trial(made, None, "no launcher has sent it yet")
