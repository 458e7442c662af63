"""Schemas of Spark profiles and bundles."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import PROGRAM, REASON, WHEN, paged
from streamsched.codec.schema.programs import SIZES, secret_texts
from streamsched.codec.schema.shapes import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    choice,
    instant,
    integer,
    record,
    ref,
    text,
)
from streamsched.domain.access.namespace_grant import GrantState, SharedKind

_DIGEST: Final = any_text("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "SHA-256 of the archive.")
_NAMESPACE: Final = any_text("default")
_GRANT: Final = {
    "owner": any_text("finance"),
    "kind": choice(SharedKind),
    "name": any_text("pay.payroll"),
    "grantee": any_text("sales"),
    "state": choice(GrantState),
    "details": boolean(),
    "reason": any_text("the report of the month"),
    "by": any_text("token:finance"),
    "at": WHEN,
}
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
    "BundleList": answer(
        {
            "bundles": array(
                answer(
                    {
                        "namespace": _NAMESPACE,
                        "digest": _DIGEST,
                        "bytes": integer(10240),
                        "files": integer(3),
                        "createdAt": instant(),
                        "usedAt": instant(),
                        "programs": integer(1),
                    }
                )
            )
        }
    ),
    "BundleUse": answer(
        {"namespace": _NAMESPACE, "digest": _DIGEST, "exists": boolean(), "limit": integer(268_435_456)}
    ),
    "StoredBundle": answer(
        {"namespace": _NAMESPACE, "digest": _DIGEST, "bytes": integer(10240), "files": integer(3), "new": boolean()}
    ),
    "NamespaceGrant": answer(_GRANT),
    "NamespaceGrantPage": paged("grants", ref("NamespaceGrant")),
    "NewNamespaceGrant": record(
        {"kind": choice(SharedKind), "name": text("pay.payroll"), "grantee": text("sales", pattern=r"^[a-zA-Z0-9_]+$")},
        {"state": choice(("granted", "refused")), "details": boolean(), **REASON},
    ),
    "DecidedNamespaceGrant": answer({**_GRANT, "suspended": array(any_text("sales.flights.weekly"))}),
    "NewOwner": record({"namespace": text("sales", pattern=r"^[a-zA-Z0-9_]+$")}),
    "SharedName": answer(
        {"kind": choice(("group", "pool")), "name": any_text("licences"), "namespace": any_text("sales")}
    ),
    "Archive": text("bytes of a tar archive", contentMediaType="application/x-tar"),
}
