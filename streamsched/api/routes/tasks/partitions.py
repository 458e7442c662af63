"""The number of partitions of lanes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import TaskPartitionsDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, VIEW_ALL
from streamsched.store.tasks.partitions import PartitionsRecord
from streamsched.wire.queues import NEW_PARTITIONS, PARTITIONS

routes = Routes("/v1/tasks/partitions", "tasks")


@routes.get("", "Get the number of partitions of lanes", may=VIEW_ALL, answers=PARTITIONS.answer)
async def get_partitions(partitions: TaskPartitionsDep) -> Response:
    """`partitions`: new lanes go to so many. While it changes, `wanted` is another number or `settled` is false, and
    `step` says what is next: `await_owners`, `switch` or `move`. `taken`: how many partitions have, or had, an owner.
    """
    return json_response(_view(await partitions.get()))


@routes.put(
    "",
    "Change the number of partitions of lanes",
    may=ADMINISTER_ALL,
    body=NEW_PARTITIONS.body,
    answers={202: PARTITIONS.answer},
)
async def set_partitions(body: BodyObject, partitions: TaskPartitionsDep) -> Response:
    """`partitions`: the wanted number, from 1 to 256. 202: the processes that deliver tasks change it, while they
    deliver; ask again until `settled` is true. Idempotent; a later change replaces an earlier one.
    """
    wanted = NEW_PARTITIONS.read(body)
    return json_response(_view(await partitions.want(wanted.partitions)), status=HTTPStatus.ACCEPTED)


def _view(found: PartitionsRecord) -> dict[str, Any]:
    return PARTITIONS.answer_of(found, taken=len(found.taken_partitions))
