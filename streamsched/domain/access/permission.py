"""Permissions and roles (ADR 30). A role is a set of permissions; a grant gives a role in one namespace, or in all."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Permission(StrEnum):
    """What a request needs.

    `view`: read definitions, jobs, runs, logs. `listen`: let a schedule of another namespace wait for events of this
    one. `emit`: announce events, register tasks. `operate`: start, rerun, kill, pause, backfill, cancel, replay.
    `deploy`: create, change and delete definitions and preferences. `administer`: tokens, and what belongs to the
    installation as a whole.
    """

    VIEW = "view"
    LISTEN = "listen"
    EMIT = "emit"
    OPERATE = "operate"
    DEPLOY = "deploy"
    ADMINISTER = "administer"


class AccessRole(StrEnum):
    """A named set of permissions."""

    VIEWER = "viewer"
    EMITTER = "emitter"
    OPERATOR = "operator"
    DEVELOPER = "developer"
    ADMIN = "admin"


_VIEWER: Final = frozenset({Permission.VIEW, Permission.LISTEN})
_OPERATOR: Final = _VIEWER | {Permission.EMIT, Permission.OPERATE}

PERMISSIONS: Final[Mapping[AccessRole, frozenset[Permission]]] = MappingProxyType(
    {
        AccessRole.VIEWER: _VIEWER,
        AccessRole.EMITTER: frozenset({Permission.EMIT}),
        AccessRole.OPERATOR: _OPERATOR,
        AccessRole.DEVELOPER: _OPERATOR | {Permission.DEPLOY},
        AccessRole.ADMIN: frozenset(Permission),
    }
)
