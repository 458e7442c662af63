"""Quotas of namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.quotas.limited import Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedQuota:
    """A quota of a namespace.

    Attributes:
        used: what is in use; None of `body_bytes` and `log_bytes`. `ratio`: the part in use.
        reason: of the last change.
    """

    namespace: Annotated[str, About("sales")]
    quota: Quota
    limit: Annotated[int, About(1000)]
    used: Annotated[float | None, About(812.0)]
    ratio: Annotated[float | None, About(0.812)]
    reason: Annotated[str, About("the pilot")]
    changed_at: datetime


QUOTA: Final = JsonShape(UsedQuota, "Quota")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuotas:
    """The quotas of a namespace that are set."""

    namespace: Annotated[str, About("sales")]
    quotas: Annotated[Sequence[UsedQuota], About(shape=QUOTA)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuota:
    """A limit; the largest depends on the quota."""

    limit: Annotated[int, About(1000)]
    reason: Annotated[str, REASON] = ""


NAMESPACE_QUOTAS: Final = JsonShape(NamespaceQuotas)
NEW_QUOTA: Final = JsonShape(NewQuota)
