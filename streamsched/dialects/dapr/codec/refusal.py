"""Refusals with Dapr's codes, messages and statuses.

    refused                                    code                              strict        else
    no job in the request                      DAPR_SCHEDULER_EMPTY              400           400
    name is blank                              DAPR_SCHEDULER_JOB_NAME_EMPTY     400           400
    name in the body                           DAPR_SCHEDULER_JOB_NAME           400           400
    neither schedule nor due time              DAPR_SCHEDULER_SCHEDULE_EMPTY     400           400
    body of another form                       ERR_MALFORMED_REQUEST             400           400
    job exists                                 DAPR_SCHEDULER_SCHEDULE_JOB       409           409
    schedule, ttl, name, … invalid             DAPR_SCHEDULER_SCHEDULE_JOB       500           400
    no such job                                DAPR_SCHEDULER_GET_JOB            500           404
    installation cannot answer                 DAPR_SCHEDULER_…_JOB              500           503

gRPC statuses correspond: INVALID_ARGUMENT, ALREADY_EXISTS, NOT_FOUND, UNAVAILABLE; INTERNAL for 500.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, StreamschedError

_TEXTS: Final[Mapping[str, str]] = {
    "DAPR_SCHEDULER_EMPTY": "Job is empty",
    "DAPR_SCHEDULER_JOB_NAME_EMPTY": "Name is empty",
    "DAPR_SCHEDULER_JOB_NAME": "Set the job name in the url only",
    "DAPR_SCHEDULER_SCHEDULE_EMPTY": "Schedule is empty",
    "ERR_MALFORMED_REQUEST": "failed deserializing HTTP body",
}
_GRPC: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class JobFault(StrEnum):
    """What a sidecar refuses itself; the value is the code."""

    EMPTY = "DAPR_SCHEDULER_EMPTY"
    NAME_EMPTY = "DAPR_SCHEDULER_JOB_NAME_EMPTY"
    NAME_IN_BODY = "DAPR_SCHEDULER_JOB_NAME"
    SCHEDULE_EMPTY = "DAPR_SCHEDULER_SCHEDULE_EMPTY"
    MALFORMED = "ERR_MALFORMED_REQUEST"


class JobOperation(StrEnum):
    """A request of the jobs API; the value is the code of its failures."""

    SCHEDULE = "DAPR_SCHEDULER_SCHEDULE_JOB"
    GET = "DAPR_SCHEDULER_GET_JOB"
    LIST = "DAPR_SCHEDULER_LIST_JOBS"
    DELETE = "DAPR_SCHEDULER_DELETE_JOB"

    @property
    def verb(self) -> str:
        """As in `failed to get job due to: …`."""
        return self.value.removeprefix("DAPR_SCHEDULER_").replace("_", " ").lower()


class JobRefusedError(InvalidError):
    """A request that Dapr's sidecar refuses before its scheduler sees it. `detail` follows Dapr's message."""

    def __init__(self, fault: JobFault, detail: str = "", path: str = "$") -> None:
        text = _TEXTS[fault]
        super().__init__(path, f"{text}: {detail}" if detail else text)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """How an error is answered. `grpc`: name of the status."""

    status: int
    grpc: str
    code: str
    message: str


def answer_of(operation: JobOperation, error: StreamschedError, *, strict: bool) -> JobAnswer:
    """The answer to a request that failed."""
    if isinstance(error, JobRefusedError):
        return JobAnswer(400, _GRPC[400], error.fault, error.reason)
    match error:
        case InvalidError(path=path, reason=reason):
            status, why = 400, reason if strict or path == "$" else f"{path.removeprefix('$.')}: {reason}"
        case NotFoundError(name=name):
            status, why = 404, f"job not found: '{name}'"
        case ConflictError():
            status, why = 409, str(error)
        case _ if error.retriable:
            status, why = 503, str(error)
        case _:
            status, why = 500, str(error)
    if strict and status != 409:
        status = 500
    return JobAnswer(status, _GRPC[status], operation, f"failed to {operation.verb} due to: {why}")


def error_json(answer: JobAnswer, *, app: str, namespace: str) -> dict[str, object]:
    """The JSON of an error response."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": answer.code,
        "domain": "dapr.io",
        "metadata": {"appID": app, "namespace": namespace},
    }
    return {"errorCode": answer.code, "message": answer.message, "details": [info]}
