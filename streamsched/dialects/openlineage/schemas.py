"""Schemas of OpenLineage's run events."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import answer, any_text, array, like

RUN_EVENT: Final = NamedSchema(
    "LineageEvent",
    like(
        {
            "eventType": "COMPLETE",
            "eventTime": "2026-01-02T03:04:05Z",
            "run": {"runId": "0198a3c1-7d2e-7c3b-9f10-1c2d3e4f5a6b"},
            "job": {"namespace": "airflow", "name": "load"},
            "outputs": [{"namespace": "s3://lake", "name": "flights"}],
        },
        "A run event of OpenLineage, version 1 or 2 of its schema.",
    ),
)
ACCEPTED: Final = NamedSchema(
    "AcceptedLineage",
    answer(
        {
            "ids": array(any_text("lineage-5f0c")),
            "cued": array(any_text("default.flights")),
            "ignored": array(answer({"output": any_text("s3://lake/flights"), "reason": any_text()})),
        }
    ),
)
