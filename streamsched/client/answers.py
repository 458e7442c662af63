"""Answers of the API, and which requests are sent again, when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from streamsched.client.api_call import ApiCall, Reply
from streamsched.codec.problem import COME_BACK, error_of_answer
from streamsched.domain.errors import ConfigurationError, DecodeError, UnavailableError
from streamsched.process.http_connection import HttpResponse

#: Seconds before each repetition of a request without an answer, or with one that says to come back.
PAUSES: Final = (0.2, 0.8, 2.0, 5.0)
#: The longest that an answer may ask to wait, in seconds.
LONGEST: Final = 30.0
#: Statuses after which a request may succeed later; 0: there was no answer.
AGAIN: Final = COME_BACK | {0}
T = TypeVar("T")


def pause_before_next(answer: HttpResponse, call: ApiCall[Any], attempt: int, pauses: Sequence[float]) -> float | None:
    """Seconds to wait before the request is sent again; None: not again. `attempt`: how many there were, from 1."""
    unread = answer.status == 429 or not answer.sent
    if attempt > len(pauses) or answer.status not in AGAIN or not (call.repeatable or unread):
        return None
    asked = float(answer.retry_after) if answer.retry_after.isdecimal() else 0.0
    return min(LONGEST, max(asked, pauses[attempt - 1])) if pauses[attempt - 1] else 0.0


def check(answer: HttpResponse, url: str, path: str) -> HttpResponse:
    """The answer to a request of that path, if it is no problem.

    Raises:
        StreamschedError: it is one, or there is none.
    """
    if not answer.status:
        raise UnavailableError(f"{url} {'gave no answer' if answer.sent else 'cannot be reached'} ({answer.failure})")
    if answer.is_success:
        return answer
    raise error_of_answer(answer.status, answer.content, url=url + path, etag=answer.etag)


def result(answer: HttpResponse, call: ApiCall[T], url: str) -> T:
    """What the request was for.

    Raises:
        StreamschedError: the answer is a problem, or there is none.
    """
    found = check(answer, url, call.path)
    try:
        return call.read(Reply(found.json(), found.etag))
    except (DecodeError, KeyError, TypeError, ValueError) as exc:
        raise ConfigurationError(f"{url}{call.path} answered what no API of streamsched does: {exc!r}") from exc
