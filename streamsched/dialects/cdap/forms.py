"""CDAP's two JSON forms of a schedule: `ScheduleDetail`, and `ScheduleSpecification` from before CDAP 4.2."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from streamsched.api.routing.parameters import Query
from streamsched.dialects.cdap.codec import schedule as details
from streamsched.dialects.cdap.codec import specification
from streamsched.store.catalog.records import ScheduleStatus


class Form(StrEnum):
    """Values of the query parameter `format`."""

    DETAIL = "detail"
    SPEC = "spec"


FormDep = Annotated[
    Form,
    Query(alias="format", description="`detail`: ScheduleDetail. `spec`: ScheduleSpecification, from before CDAP 4.2."),
]


def write_form(status: ScheduleStatus, form: Form = Form.DETAIL) -> dict[str, Any] | None:
    """The schedule in the requested form; None when it cannot be expressed in that form."""
    record = status.record
    if form is Form.SPEC:
        return specification.to_json(record.definition)
    return details.to_json(record.definition, enabled=record.enabled, updated_at=record.updated_at)
