"""Definitions of webhooks, their signatures and their events."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.webhooks.cloud_event import binary, event_of, message_id
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.webhooks.change import STATES, WorkLine, changes_of
from streamsched.domain.webhooks.signature import secret_text, signature_headers, signing_key
from streamsched.domain.webhooks.webhook import GIVE_UP_AFTER, RETRY, Webhook
from streamsched.wire.webhook_definition import DEFINITION

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
URL = "https://hooks.example.com/in"


def line(action: str = "run.failed", subject: str = "default.flights.weekly.1.7.r1", **more: Any) -> WorkLine:
    kind = action.partition(".")[0]
    return WorkLine(number=17, at=NOON, kind=kind, subject=subject, action=action, reason="why", **more)


def test_every_state_is_entered_by_a_change() -> None:
    reached = set(STATES.values())
    assert reached >= {each.value for each in RunState} - {"SUSPENDED"}, "nothing suspends a run"
    assert reached >= {each.value for each in JobState} - {"PENDING_TRIGGER"}, "an accumulation is no job yet"
    assert changes_of("job.*") | changes_of("run.*") == set(STATES)


def test_a_webhook_wants_what_it_names() -> None:
    weekly, join = ScheduleRef.parse("default.flights.weekly"), ProgramRef.parse("default.flights.join")
    all_, failed = Webhook(namespace="default", name="a", url=URL), frozenset({"run.failed"})
    some = Webhook(
        namespace="default",
        name="b",
        url=URL,
        changes=failed,
        schedules=frozenset({weekly}),
        programs=frozenset({join}),
    )
    known = line(schedule=str(weekly), program=str(join))
    assert all_.wants(line())
    assert some.wants(known)
    assert not all_.wants(line(subject="defaults.flights.weekly.1.7.r1"))
    assert not all_.wants(line("run.stop_requested"))
    assert not some.wants(line("run.lost", schedule=str(weekly), program=str(join)))
    assert not some.wants(line(schedule=str(weekly)))
    assert not some.wants(line(program=str(join)))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"url": "ftp://host/"}, "$.url"),
        ({"url": "https://user:word@host/"}, "$.url"),
        ({"url": "https://host/#part"}, "$.url"),
        ({"url": URL, "changes": ["run.exploded"]}, "$.changes"),
        ({"url": URL, "changes": ["*"]}, "$.changes"),
        ({"url": URL, "schedules": ["other.a.b"]}, "$.schedules"),
        ({"url": URL, "programs": ["nothing"]}, "$.programs[0]"),
        ({"url": URL, "secret": {"secret": "whsec_plain"}}, "$.secret.secret"),
        ({"url": URL, "secret": {"secret": "env:STREAMSCHED_OIDC_CLIENT_SECRET"}}, "$.secret.secret"),
        ({"url": URL, "mode": "other"}, "$.mode"),
        ({"url": URL, "timeout": "2m"}, "$.timeout"),
        ({"url": URL, "timeout": 5}, "$.timeout"),
        ({"url": URL, "more": 1}, "$.more"),
        ({}, "$.url"),
    ],
)
def test_a_wrong_definition_is_refused_with_its_path(given: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        DEFINITION.read(given, namespace="default", name="hook")
    assert refusal.value.path == path


@pytest.mark.parametrize("name", ["", "a.b", "-a", "ü", "x" * 240])
def test_a_name_is_part_of_the_name_of_a_queue(name: str) -> None:
    with pytest.raises(InvalidError):
        Webhook(namespace="default", name=name, url=URL)


def test_a_definition_survives_the_way_through_json() -> None:
    given = {
        "url": f"{URL}?a=b",
        "changes": ["job.waits", "run.*"],
        "schedules": ["default.a.b"],
        "programs": ["default.a.c"],
        "secret": {"secret": "env:HOOK"},
        "mode": "binary",
        "timeout": "5s",
        "format": "cloudevents",
    }
    read = DEFINITION.read(given, namespace="default", name="hook")
    assert DEFINITION.write(read) == given
    least = DEFINITION.read({"url": URL}, namespace="default", name="hook")
    assert DEFINITION.read(DEFINITION.write(least), namespace="default", name="hook") == least


def test_a_target_is_given_up_before_a_change_is() -> None:
    shortest = [RETRY.wait("t", failures) for failures in range(1, RETRY.retries + 1)]
    least = sum((wait * (1 - RETRY.jitter) for wait in shortest if wait is not None), timedelta(0))
    assert least * 1.0 <= sum((wait for wait in shortest if wait is not None), timedelta(0))
    drawn = sum((wait for wait in shortest if wait is not None), timedelta(0))
    assert drawn > GIVE_UP_AFTER + timedelta(days=1)
    assert RETRY.longest * (1 - RETRY.jitter) * (RETRY.retries - 12) > GIVE_UP_AFTER


def test_signatures_are_those_of_the_specification() -> None:
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', key)
    assert made == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.binary(min_size=24, max_size=64))
def test_a_secret_survives_the_way_through_its_text(random: bytes) -> None:
    assert signing_key(f" {secret_text(random)}\n") == random


@pytest.mark.parametrize(
    "secret", ["", "plain", "whsec_", "whsec_!", "whsec_" + b64encode(b"x" * 23).decode(), "whsec_ä"]
)
def test_a_wrong_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        signing_key(secret)
    assert secret.removeprefix("whsec_") == "" or secret.removeprefix("whsec_") not in str(refusal.value)


@given(st.text(max_size=50), st.text(max_size=50))
def test_an_event_in_binary_mode_has_headers_that_can_be_sent(subject: str, reason: str) -> None:
    subject, reason = (each.encode(errors="replace").decode() for each in (subject, reason))
    made = event_of(WorkLine(number=1, at=NOON, kind="run", subject=subject, action="run.failed", reason=reason))
    headers, body = binary(made)
    assert all(value.isascii() and value.isprintable() and " " not in value for value in headers.values() if value)
    assert orjson.loads(body) == orjson.loads(made)["data"]
    assert headers["ce-id"] == message_id(made) == "1-1772366400000000"
