"""Objects of several shapes, told apart by `type`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import EventName
from streamsched.domain.tasks.queue import HttpTarget, QueuePolicy, Target, TopicTarget, WebhookTarget, WorkerTarget
from streamsched.domain.tasks.task_retry import BackoffRetry, ConstantRetry, PeriodRetry, TaskRetry
from streamsched.wire.queues import POLICY, QUEUE, TARGET

HTTP = {"type": "http", "url": "https://example.org/mail"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "$.target: is missing"),
        ({"target": "http"}, "$.target: must be an object but is a text"),
        ({"target": {}}, "$.target.type: is missing"),
        ({"target": {"type": 1}}, "$.target.type: must be a text but is a number"),
        ({"target": {"type": "ftp"}}, "$.target.type: must be one of http, publish, worker, webhook but is 'ftp'"),
        ({"target": {"type": "http"}}, "$.target.url: is missing"),
        ({"target": {**HTTP, "b": 1}}, "$.target.b: unknown field (known: headers, timeout, type, url)"),
        ({"target": {"type": "webhook", "url": "x"}}, "$.target.url: unknown field (known: type)"),
        ({"target": {**HTTP, "timeout": "0s"}}, "$.target.timeout: must be positive but is 0:00:00"),
        ({"target": {"type": "worker", "maxLosses": -1}}, "$.target.maxLosses: must be from 0 to "),
        ({"target": HTTP, "retry": {"type": "constant"}}, "$.retry.interval: is missing"),
        ({"target": HTTP, "maxInFlight": 0}, "$.maxInFlight: must be at least 1 but is 0"),
        ({"target": HTTP, "rate": "1"}, "$.rate: must be a number but is '1'"),
        ({"target": HTTP, "ends": "a.b.c!"}, "$.ends: "),
    ],
)
def test_what_is_wrong_is_named_with_its_path(given: Any, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        POLICY.read(given)
    assert str(refusal.value).startswith(problem)


@pytest.mark.parametrize(
    "target",
    [HttpTarget("https://a.b/", timedelta(seconds=3), {"X-A": "b"}), WorkerTarget(max_losses=1), WebhookTarget()],
)
@pytest.mark.parametrize(
    "retry", [BackoffRetry(retries=1), PeriodRetry(timedelta(hours=1)), ConstantRetry(timedelta(seconds=1))]
)
def test_what_was_written_is_read_as_it_was(target: Target, retry: TaskRetry) -> None:
    policy = QueuePolicy(target=target, retry=retry, ends=EventName("default", "mailed"), rate=2.5)
    assert POLICY.read(POLICY.write(policy)) == policy


def test_a_queue_is_answered_with_its_policy() -> None:
    policy = QueuePolicy(target=WebhookTarget(), ends=EventName("default", "mailed"))
    counted = {"name": "mail", "paused": False, "tasks": 1, "in_flight": 0, "ready_at": None}
    found = QUEUE.answer_of(policy, **counted)
    assert {name: found[name] for name in POLICY.write(policy)} == POLICY.write(policy)
    assert found["dedupe"] == "14d"
    assert QUEUE.take(found).ends == policy.ends


def test_each_shape_says_its_type() -> None:
    assert TARGET.write(TopicTarget(EventName("a", "b"))) == {"type": "publish", "event": "a.b"}
    assert TARGET.take({"type": "webhook", "later": 1}) == WebhookTarget()
