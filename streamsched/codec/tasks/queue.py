"""The policy of a queue as JSON. Only `target` is required.

{"target": {"type": "http", "url": "https://host/path", "timeout": "30s", "headers": {…}}
         | {"type": "publish", "event": "default.name"} | {"type": "worker", "timeout": "1m", "maxLosses": 5}
         | {"type": "webhook"},
 "retry": {"type": "backoff", "retries": 100, "delay": "20s", "longest": "2m", "jitter": 0.5}
        | {"type": "period", "period": "30s"} | {"type": "constant", "interval": "1s", "retries": 3 or null},
 "grace": "10s" or null, "dedupe": "14d", "maxInFlight": n or null, "rate": n or null, "burst": n,
 "identity": "key" | "key_and_due", "ends": "default.name" or null}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, assert_never

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.domain.names import EventName
from streamsched.domain.tasks.queue import (
    HttpTarget,
    QueuePolicy,
    Target,
    TaskIdentity,
    TopicTarget,
    WebhookTarget,
    WorkerTarget,
)
from streamsched.domain.tasks.task_retry import BackoffRetry, ConstantRetry, PeriodRetry, TaskRetry
from streamsched.domain.time.duration import duration_text, parse_duration


def policy_to_json(policy: QueuePolicy) -> dict[str, Any]:
    """The canonical JSON."""
    return {
        "target": _target_to_json(policy.target),
        "retry": retry_to_json(policy.retry),
        "grace": None if policy.grace is None else duration_text(policy.grace),
        "dedupe": duration_text(policy.dedupe),
        "maxInFlight": policy.max_in_flight,
        "rate": policy.rate,
        "burst": policy.burst,
        "identity": policy.identity.value,
        "ends": None if policy.ends is None else str(policy.ends),
    }


def policy_from_json(fields: Fields) -> QueuePolicy:
    """Decodes a policy; missing fields have their defaults.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    given: dict[str, Any] = {"target": _target(fields.object("target"))}
    retry = fields.optional_object("retry")
    if retry is not None:
        given["retry"] = retry_from_json(retry)
    _set(given, "grace", optional_duration(fields, "grace"))
    _set(given, "dedupe", optional_duration(fields, "dedupe"))
    _set(given, "max_in_flight", fields.optional_integer("maxInFlight"))
    _set(given, "rate", optional_number(fields, "rate"))
    _set(given, "burst", fields.optional_integer("burst"))
    _set(given, "identity", fields.optional_choice("identity", TaskIdentity))
    ends = fields.optional_text("ends")
    if ends is not None:
        with prefix_errors(fields.path_of("ends")):
            given["ends"] = EventName.parse(ends)
    fields.check_all_read()
    with prefix_errors(fields.path):
        return QueuePolicy(**given)


def retry_to_json(retry: TaskRetry) -> dict[str, Any]:
    """The canonical JSON of a retry policy."""
    match retry:
        case BackoffRetry():
            return {
                "type": "backoff",
                "retries": retry.retries,
                "delay": duration_text(retry.delay),
                "longest": duration_text(retry.longest),
                "jitter": retry.jitter,
            }
        case PeriodRetry():
            return {"type": "period", "period": duration_text(retry.period)}
        case ConstantRetry():
            return {"type": "constant", "interval": duration_text(retry.interval), "retries": retry.retries}
        case _:
            assert_never(retry)


def retry_from_json(fields: Fields) -> TaskRetry:
    """Raises:
    DecodeError, InvalidDefinitionError: with the path of the field.
    """
    return _read_by_type(fields, {"backoff": _backoff, "period": _period, "constant": _constant})


def optional_duration(fields: Fields, name: str) -> timedelta | None:
    """A duration, or None when the field is absent.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    text = fields.optional_text(name)
    return None if text is None else parse_duration(text, fields.path_of(name))


def optional_number(fields: Fields, name: str) -> float | None:
    """A number, or None when the field is absent.

    Raises:
        DecodeError: with the path of the field.
    """
    value = fields.optional_value(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        fields.fail(name, f"must be a number but is {format_value(value)}")
    return value


def _backoff(fields: Fields) -> TaskRetry:
    given: dict[str, Any] = {}
    _set(given, "retries", fields.optional_integer("retries"))
    _set(given, "delay", optional_duration(fields, "delay"))
    _set(given, "longest", optional_duration(fields, "longest"))
    _set(given, "jitter", optional_number(fields, "jitter"))
    fields.check_all_read()
    with prefix_errors(fields.path):
        return BackoffRetry(**given)


def _period(fields: Fields) -> TaskRetry:
    period = parse_duration(fields.text("period"), fields.path_of("period"))
    fields.check_all_read()
    with prefix_errors(fields.path):
        return PeriodRetry(period)


def _constant(fields: Fields) -> TaskRetry:
    interval, retries = (
        parse_duration(fields.text("interval"), fields.path_of("interval")),
        fields.optional_integer("retries"),
    )
    fields.check_all_read()
    with prefix_errors(fields.path):
        return ConstantRetry(interval, retries)


def _target_to_json(target: Target) -> dict[str, Any]:
    match target:
        case HttpTarget(url=url, timeout=timeout, headers=headers):
            return {"type": "http", "url": url, "timeout": duration_text(timeout), "headers": dict(headers)}
        case TopicTarget(event=event):
            return {"type": "publish", "event": str(event)}
        case WorkerTarget(timeout=timeout, max_losses=max_losses):
            return {"type": "worker", "timeout": duration_text(timeout), "maxLosses": max_losses}
        case WebhookTarget():
            return {"type": "webhook"}
        case _:
            assert_never(target)


def _target(fields: Fields) -> Target:
    return _read_by_type(fields, {"http": _http, "publish": _publish, "worker": _worker, "webhook": _webhook})


def _http(fields: Fields) -> Target:
    given: dict[str, Any] = {"url": fields.text("url"), "headers": fields.texts("headers")}
    _set(given, "timeout", optional_duration(fields, "timeout"))
    fields.check_all_read()
    with prefix_errors(fields.path):
        return HttpTarget(**given)


def _publish(fields: Fields) -> Target:
    event = fields.text("event")
    fields.check_all_read()
    with prefix_errors(fields.path_of("event")):
        return TopicTarget(EventName.parse(event))


def _worker(fields: Fields) -> Target:
    given: dict[str, Any] = {}
    _set(given, "timeout", optional_duration(fields, "timeout"))
    _set(given, "max_losses", fields.optional_integer("maxLosses"))
    fields.check_all_read()
    with prefix_errors(fields.path):
        return WorkerTarget(**given)


def _webhook(fields: Fields) -> Target:
    fields.check_all_read()
    return WebhookTarget()


_Read = Callable[[Fields], Any]
_TYPE: Final = "type"


def _read_by_type(fields: Fields, kinds: Mapping[str, _Read]) -> Any:
    """Reads an object by its `type`."""
    named = fields.text(_TYPE)
    read = kinds.get(named)
    if read is None:
        return fields.fail(_TYPE, f"must be one of {', '.join(kinds)} but is {format_value(named)}")
    return read(fields)


def _set(given: dict[str, Any], name: str, value: object) -> None:
    if value is not None:
        given[name] = value
