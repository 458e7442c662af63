"""Entries of the audit, and the verdict on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import any_text, one_of
from streamsched.domain.access.audit import AuditEntry, Intact, Tampered

_HASH: Final = About("9f86d0", shape=ByHand(keep_json, bytes.hex, any_text("9f86d0")))
ENTRY: Final = JsonShape(
    AuditEntry,
    outside=("previous",),
    about={
        "caller": About("token:ci"),
        "action": About("PUT /v1/groups/{name}"),
        "target": About("/v1/groups/warehouse"),
        "detail": About(schema={"type": "object", "examples": [{"status": 200}]}),
        "hash": _HASH,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntactAudit:
    """All entries are as they were written. `entries`: how many there are; `removed`: were kept for their time."""

    intact: bool = True
    entries: Annotated[int, About(4)]
    removed: Annotated[int, About(0)]
    last: Annotated[bytes, _HASH]


@dataclass(frozen=True, slots=True, kw_only=True)
class TamperedAudit:
    """The first entry that is not as it was written."""

    intact: Annotated[bool, About(False)] = False
    number: Annotated[int, About(2)]
    reason: Annotated[str, About("its content has changed")]


_INTACT: Final = JsonShape(IntactAudit)
_TAMPERED: Final = JsonShape(TamperedAudit)
VERDICT: Final = NamedSchema("AuditVerdict", lambda: one_of(_INTACT.answer_schema(), _TAMPERED.answer_schema()))


def verdict_view(verdict: Intact | Tampered) -> dict[str, Any]:
    """The verdict on all entries."""
    if isinstance(verdict, Intact):
        return _INTACT.answer_of(verdict, entries=verdict.entries - verdict.removed)
    return _TAMPERED.answer_of(verdict)
