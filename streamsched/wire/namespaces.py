"""What belongs to namespaces: grants between them, preferences, bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text, array, choice
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind

_NAMESPACE: Final = About("default")
_DIGEST: Final = About("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "SHA-256 of the archive.")
_REGION: Final = About("EU", key="region")
_CHANGE: Final = About("the new region")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNamespaceGrant:
    """What the owner of a namespace decides about a use by `grantee`."""

    kind: SharedKind
    name: Annotated[str, About("pay.payroll")]
    grantee: Annotated[str, About("sales", pattern=r"^[a-zA-Z0-9_]+$")]
    state: Annotated[GrantState, About(schema=choice((GrantState.GRANTED, GrantState.REFUSED)))] = GrantState.GRANTED
    details: bool = False
    reason: Annotated[str, REASON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOwner:
    """Who is to own a group or a pool."""

    namespace: Annotated[str, About("sales", pattern=r"^[a-zA-Z0-9_]+$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedName:
    """The name of a group or a pool, and the namespace that owns it."""

    kind: Annotated[SharedKind, About(schema=choice((SharedKind.GROUP, SharedKind.POOL)))]
    name: Annotated[str, About("licences")]
    namespace: Annotated[str, About("sales")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencesState:
    """The preferences of a namespace. `deployed`: whether an app was ever deployed to it."""

    namespace: Annotated[str, _NAMESPACE]
    deployed: bool
    arguments: Annotated[Mapping[str, str], _REGION]
    reason: Annotated[str, _CHANGE]
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPreferences:
    """All preferences of a namespace."""

    arguments: Annotated[Mapping[str, str], _REGION]
    reason: Annotated[str, _CHANGE] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPreferences:
    """Some preferences of a namespace; None: one that is removed."""

    arguments: Annotated[Mapping[str, str | None], _REGION]
    reason: Annotated[str, _CHANGE] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundle:
    namespace: Annotated[str, _NAMESPACE]
    digest: Annotated[str, _DIGEST]
    bytes: Annotated[int, About(10240)]
    files: Annotated[int, About(3)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleState(_Bundle):
    """A stored bundle. `programs`: how many refer to it."""

    created_at: datetime
    used_at: datetime
    programs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleUse:
    """Whether a bundle exists, so that it need not be uploaded. `limit`: most bytes of an upload."""

    namespace: Annotated[str, _NAMESPACE]
    digest: Annotated[str, _DIGEST]
    exists: bool
    limit: Annotated[int, About(268_435_456)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBundle(_Bundle):
    """A bundle that was uploaded. `new`: it was not there yet."""

    new: bool


NAMESPACE_GRANT: Final = JsonShape(
    NamespaceGrant,
    named=True,
    about={
        "owner": About("finance"),
        "name": About("pay.payroll"),
        "grantee": About("sales"),
        "reason": About("the report of the month"),
        "by": About("token:finance"),
    },
)
NEW_NAMESPACE_GRANT: Final = JsonShape(NewNamespaceGrant)
DECIDED: Final = NAMESPACE_GRANT.with_members(
    "DecidedNamespaceGrant", suspended=array(any_text("sales.flights.weekly"))
)
NEW_OWNER: Final = JsonShape(NewOwner)
SHARED_NAME: Final = JsonShape(OwnedName, "SharedName")
PREFERENCES: Final = JsonShape(PreferencesState, "Preferences")
NEW_PREFERENCES: Final = JsonShape(NewPreferences)
CHANGED_PREFERENCES: Final = JsonShape(ChangedPreferences)
BUNDLE: Final = JsonShape(BundleState, "Bundle")
BUNDLE_USE: Final = JsonShape(BundleUse)
STORED_BUNDLE: Final = JsonShape(StoredBundle)
