"""Answers of the API, and which requests are sent again, when. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from streamsched.client.calls import ApiCall, Reply
from streamsched.codec.problem import COME_BACK, error_from_json
from streamsched.domain.errors import ConfigurationError, DecodeError, UnavailableError

#: Seconds before each repetition of a request without an answer, or with one that says to come back.
PAUSES: Final = (0.2, 0.8, 2.0, 5.0)
#: The longest that an answer may ask to wait, in seconds.
LONGEST: Final = 30.0
#: Statuses after which a request may succeed later; 0: there was no answer.
AGAIN: Final = COME_BACK | {0}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request: a status with a body and headers, or why there is no answer.

    Attributes:
        status: 0 without an answer.
        sent: whether the server may have read the request.
    """

    status: int
    body: bytes = b""
    etag: str = ""
    retry_after: str = ""
    failure: str = ""
    sent: bool = True

    def pause(self, call: ApiCall[Any], attempt: int, pauses: Sequence[float]) -> float | None:
        """Seconds to wait before the request is sent again; None: not again. `attempt`: how many there were, from 1."""
        unread = self.status == 429 or not self.sent
        if attempt > len(pauses) or self.status not in AGAIN or not (call.repeatable or unread):
            return None
        asked = float(self.retry_after) if self.retry_after.isdecimal() else 0.0
        return min(LONGEST, max(asked, pauses[attempt - 1])) if pauses[attempt - 1] else 0.0

    def result(self, call: ApiCall[T], url: str) -> T:
        """What the request was for.

        Raises:
            StreamschedError: the answer is a problem, or there is none.
        """
        if not self.status:
            raise UnavailableError(f"{url} cannot be reached ({self.failure})")
        try:
            data = json.loads(self.body) if self.body else None
        except ValueError:
            data = None
        if self.status >= 300 or data is None:
            raise error_from_json(self.status, data, url=url + call.path, etag=self.etag)
        try:
            return call.read(Reply(data, self.etag))
        except (DecodeError, KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"{url}{call.path} answered what no API of streamsched does: {exc!r}") from exc
