"""Errors of the API come back as errors, by their statuses and members."""

from __future__ import annotations

import pytest

from streamsched.codec.problem import error_from_json, error_to_json, refusals_from_json, status_of
from streamsched.domain.errors import (
    BacklogExceededError,
    BodyExceededError,
    ConfigurationError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidDefinitionError,
    InvalidError,
    NotFoundError,
    PlanChangedError,
    QuotaExceededError,
    RateExceededError,
    Refusal,
    RefusedError,
    RevisionChangedError,
    StreamschedError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
)
from streamsched.domain.json_value import Json

URL = "http://here/v1/things"
#: An error, and the class that a client raises for it. What only the server knows more about is a wider one there.
ERRORS: list[tuple[StreamschedError, type[StreamschedError]]] = [
    (InvalidError("$.a", "is no number"), InvalidError),
    (InvalidDefinitionError("$.trigger", "never holds"), InvalidError),
    (NotFoundError("schedule", "a.b.c"), NotFoundError),
    (ConflictError("exists"), ConflictError),
    (PlanChangedError("app a.b"), PlanChangedError),
    (UnauthenticatedError("no token"), UnauthenticatedError),
    (ForbiddenError("needs deploy"), ForbiddenError),
    (QuotaExceededError("a", "schedules", 3, used=3, wanted=1), QuotaExceededError),
    (BacklogExceededError("a", age_s=90, limit_s=60, retry_after=2), UnavailableError),
    (RateExceededError("a", "events", 3, used=3, wanted=1, retry_after=2), UnavailableError),
    (UnavailableError("PostgreSQL is away"), UnavailableError),
    (FencedError("w"), UnavailableError),
    (ConfigurationError("no Java"), StreamschedError),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS, ids=lambda each: type(each).__name__)
def test_an_error_comes_back_with_its_message(error: StreamschedError, kind: type[StreamschedError]) -> None:
    found = error_from_json(status_of(error), error_to_json(error), url=URL)
    assert (type(found), str(found)) == (kind, str(error))
    assert vars(found) == {name: value for name, value in vars(error).items() if name in vars(found)}


@pytest.mark.parametrize(
    "error",
    [TooLargeError("signals", 9, 8), BodyExceededError("a", "body", 3, wanted=4)],
    ids=lambda e: type(e).__name__,
)
def test_what_is_too_large_is_input_that_is_wrong(error: StreamschedError) -> None:
    found = error_from_json(status_of(error), error_to_json(error), url=URL)
    assert isinstance(found, InvalidError)
    assert (found.path, found.reason) == ("$", str(error))


def test_another_revision_is_that_of_the_header() -> None:
    error = RevisionChangedError("schedule a.b.c", "7")
    found = error_from_json(status_of(error), error_to_json(error), url=URL, etag='"7"')
    assert isinstance(found, RevisionChangedError)
    assert (found.what, found.revision) == (URL, "7")


def test_events_that_are_refused_have_paths_within_each_event() -> None:
    answer = {"errors": [{"index": 2, "path": "$[2].data.a", "reason": "is no text"}]}
    assert refusals_from_json(answer) == [Refusal(2, "$.data.a", "is no text")]
    found = error_from_json(400, error_to_json(InvalidError("$", "none")) | answer, url=URL)
    assert isinstance(found, RefusedError)


@pytest.mark.parametrize("answer", [None, "<html>", [], {"detail": "nginx"}])
def test_an_answer_that_is_no_problem_is_of_no_api(answer: Json) -> None:
    assert isinstance(error_from_json(404, answer, url=URL), ConfigurationError)
    assert isinstance(error_from_json(502, answer, url=URL), UnavailableError)
