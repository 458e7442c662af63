"""Spark profiles: settings in one place, which Spark programs name. Those of namespace `*` are for all namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep, require
from streamsched.api.body import BodyObject, split_reason
from streamsched.api.deps import ClockDep, ProfilesDep, ServicesDep
from streamsched.api.preconditions import ExpectedDep, TaggedDep, answer_stored
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.codec.schedules.spark_needs import profile_from_json, profile_to_json
from streamsched.codec.schema.programs import PROFILE_MEMBERS, PROFILE_SETTINGS
from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import record, text
from streamsched.domain.access.grant import Allowed
from streamsched.domain.access.permission import Permission
from streamsched.domain.names import ProgramRef, check_namespace
from streamsched.domain.programs.spark_profile import EVERYWHERE, SparkProfile

routes = Routes("/v1/namespaces/{namespace}/spark-profiles", "programs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileState:
    """A Spark profile. `users`: programs that name it and get it, at most 100."""

    namespace: Annotated[str, About("default")]
    name: Annotated[str, About("large", of="profile.name")]
    settings: Annotated[
        SparkProfile, About(of="profile", spread=True, shape=ByHand(keep_json, profile_to_json, PROFILE_SETTINGS))
    ]
    shell: Annotated[bool, About(text="Whether who set it has `shell`; else it is for cluster mode only.")]
    reason: Annotated[str, About("more memory")]
    changed_at: datetime
    users: Annotated[Sequence[ProgramRef], About("default.flights.join")]


PROFILE: Final = JsonShape(ProfileState, "SparkProfile")
NEW_PROFILE: Final = NamedSchema(
    "NewSparkProfile", lambda: record({}, {**PROFILE_MEMBERS, "reason": text(REASON.example, about=REASON.text)})
)


async def profile_namespace(namespace: str) -> str:
    """The namespace of the path.

    Raises:
        InvalidError: it is neither a name of a namespace nor `*`.
    """
    if namespace != EVERYWHERE:
        check_namespace(namespace)
    return namespace


NamespaceDep = Annotated[str, Depends(profile_namespace)]


@routes.get("", "List Spark profiles", may=VIEW, answers=PROFILE.whole_list("profiles", "SparkProfileList"))
async def list_profiles(namespace: NamespaceDep, profiles: ProfilesDep) -> Response:
    """The profiles of the namespace, and those of the installation (namespace `*`)."""
    return json_response({"profiles": [PROFILE.write(each) for each in await profiles.list(namespace)]})


@routes.get("/{profile}", "Get a Spark profile", may=VIEW, answers=PROFILE.answer)
async def get_profile(namespace: NamespaceDep, profile: str, profiles: ProfilesDep, tagged: TaggedDep) -> Response:
    """The profile of the namespace itself, with the programs that get it (`users`, at most 100)."""
    found = await profiles.get(namespace, profile)
    return tagged(PROFILE.write(found), found.revision)


@routes.put("/{profile}", "Set a Spark profile", may=DEPLOY, body=NEW_PROFILE, answers=PROFILE.answer)
async def set_profile(
    namespace: NamespaceDep,
    profile: str,
    body: BodyObject,
    caller: CallerDep,
    services: ServicesDep,
    *,
    expected: ExpectedDep,
) -> Response:
    """Replaces the profile by `{"master"?, "conf"?, "driver"?: {"cores"?, "memory"?}, "executors"?: {"instances"?,
    "cores"?, "memory"?}, "reason"?}`. Runs that start afterwards have its settings; those of their program override
    them. Namespace `*`: for programs of all namespaces that have no profile of this name; needs the role admin.
    What a caller without the permission `shell` has set is for programs with `deploy_mode` cluster only, and has only
    settings that driver and executors read: `shell` is false.
    """
    _require_admin(caller, namespace)
    reason, rest = split_reason(body)
    wanted = profile_from_json(profile, rest)
    if wanted.master is not None and namespace != EVERYWHERE:
        require(caller.may_use_master(namespace, wanted.master))
    now, shell = services.clock.now(), isinstance(caller.may_execute(namespace), Allowed)
    found = await services.programs.profiles.set(namespace, wanted, reason, now=now, expected=expected, shell=shell)
    return answer_stored(PROFILE.write(found), found.revision)


@routes.delete("/{profile}", "Delete a Spark profile", may=DEPLOY, answers=PROFILE.answer, conflict=True)
async def delete_profile(
    namespace: NamespaceDep,
    profile: str,
    caller: CallerDep,
    profiles: ProfilesDep,
    clock: ClockDep,
    *,
    expected: ExpectedDep,
    force: Annotated[bool, Query(description="Delete it although programs use it; their runs then fail.")] = False,
    reason: Annotated[str, Query(max_length=1000, description="Stored in the history.")] = "",
) -> Response:
    """Deletes the profile and returns what it was. 409 names the programs that use it and would have no profile of this
    name; with `force` it is deleted all the same.
    """
    _require_admin(caller, namespace)
    now = clock.now()
    deleted = await profiles.delete(namespace, profile, force=force, reason=reason, now=now, expected=expected)
    return json_response(PROFILE.write(deleted))


def _require_admin(caller: CallerDep, namespace: str) -> None:
    if namespace == EVERYWHERE:
        require(caller.may(Permission.ADMINISTER, None))
