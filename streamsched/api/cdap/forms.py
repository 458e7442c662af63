"""The two forms in which CDAP shows a schedule: today's, and the one it spoke before 4.2."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query

from streamsched.codec.cdap import schedule as details
from streamsched.codec.cdap import specification
from streamsched.ports.catalog import ScheduleStatus


class Form(StrEnum):
    """`format=` of a request."""

    DETAIL = "detail"
    SPEC = "spec"


FormDep = Annotated[Form, Query(alias="format")]


def shown(status: ScheduleStatus, form: Form = Form.DETAIL) -> dict[str, Any] | None:
    """A schedule in the form that was asked for; None when it has no such form."""
    record = status.record
    if form is Form.SPEC:
        return specification.to_json(record.definition)
    return details.to_json(record.definition, enabled=record.enabled, updated_at=record.updated_at)
