"""Schemas of Spark profiles and bundles."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import PROGRAM, REASON
from streamsched.codec.schema.programs import SIZES, secret_texts
from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    instant,
    record,
    ref,
    text,
)

_NAMESPACE: Final = any_text("default")
_CONF: Final = secret_texts("spark.executor.memoryOverhead", "1g")

NEEDS: Final[Definitions] = {
    "SparkProfile": answer(
        {
            "namespace": _NAMESPACE,
            "name": any_text("large"),
            "conf": _CONF,
            "shell": boolean(about="Whether who set it has `shell`; else it is for cluster mode only."),
            "reason": any_text("more memory"),
            "changedAt": instant(),
            "users": array(PROGRAM),
        },
        {"master": any_text("spark://host:7077"), **SIZES},
    ),
    "SparkProfileList": answer({"profiles": array(ref("SparkProfile"))}),
    "NewSparkProfile": record({}, {"master": text("spark://host:7077"), "conf": _CONF, **SIZES, **REASON}),
    "Archive": text("bytes of a tar archive", contentMediaType="application/x-tar"),
}
