"""Follows the stream of decisions: what is asked for, what its lines mean, and when to connect again. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.client.answers import AGAIN
from streamsched.client.api_call import query
from streamsched.codec.problem import error_of_answer
from streamsched.domain.errors import UnauthenticatedError, UnavailableError
from streamsched.process.http_connection import HttpResponse
from streamsched.wire.decisions import DECISION, Decision

#: Path of the stream.
PATH: Final = "/v1/decisions"
#: Seconds without a byte after which the connection is given up: a server sends a comment every 15.
SILENCE_S: Final = 45.0


@dataclass(slots=True)
class Following:
    """One reading of the stream over any number of connections.

    Attributes:
        after: the number of the last decision, None: none yet.
        attempts: connections since the last one that was opened.
    """

    namespace: str | None
    schedule: str | None
    after: int | None
    attempts: int = 0
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    @property
    def params(self) -> Sequence[tuple[str, str]]:
        """The query of the next connection: what is followed. From where is in `headers`."""
        return query(namespace=self.namespace, schedule=self.schedule)

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.after is None else {"Last-Event-ID": str(self.after)}

    def line(self, text: str) -> Decision | None:
        """Reads a line of the stream; returns the decision that it ends.

        Raises:
            UnauthenticatedError: the server ended the stream, because the token does not permit it any more.
        """
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id" if value.isdecimal():
                self.after = int(value)
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case _:
                pass
        return None if text else self._decide_end()

    def _decide_end(self) -> Decision | None:
        event, data = self._event, "\n".join(self._data)
        self._event, self._data = "", []
        if not data:
            return None
        self.attempts = 0
        if event == "open":
            return None
        read: dict[str, Any] = json.loads(data)
        if event == "end":
            raise UnauthenticatedError(str(read.get("reason", "the stream was ended")))
        return DECISION.take(read)

    def pause(self, answer: HttpResponse, pauses: Sequence[float], url: str) -> float:
        """Seconds before the next connection. `answer`: a problem, or why the connection ended.

        Raises:
            StreamschedError: another connection would not help, or there were as many as pauses.
        """
        self._event, self._data = "", []
        if answer.status not in AGAIN:
            raise error_of_answer(answer.status, answer.content, url=url + PATH)
        if self.attempts >= len(pauses):
            raise UnavailableError(f"{url} cannot be reached ({answer.failure or f'it answered {answer.status}'})")
        self.attempts += 1
        return pauses[self.attempts - 1]
