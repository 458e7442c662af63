"""Schemas of Dapr's jobs, of which the shape of a job is Dapr's."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import answer, any_text, array, instant, integer, like, ref

JOB: Final = NamedSchema(
    "DaprJob", like({"schedule": "@every 1h", "repeats": 3, "data": {"a": 1}}, "A job as in Dapr's API.")
)
JOBS: Final = NamedSchema("DaprJobs", answer({"jobs": array(ref("DaprJob"))}), [JOB])
FIRES: Final = NamedSchema("DaprFires", answer({"name": any_text("backup"), "next": array(instant())}))
DELETED: Final = NamedSchema("DaprDeleted", answer({"deleted": integer(2)}))
IMPORTED: Final = NamedSchema("DaprImported", answer({"imported": integer(2)}))
