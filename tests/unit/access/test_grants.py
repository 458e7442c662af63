"""Verdicts on callers, against a model that spells the roles out."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.access.grant import Allowed, Caller, Denied, Grant
from streamsched.domain.access.permission import AccessRole, Permission
from streamsched.domain.errors import InvalidError
from streamsched.domain.json_value import Json
from streamsched.wire.access import GRANT

MODEL = {
    "viewer": "view listen",
    "emitter": "emit",
    "operator": "view listen emit operate",
    "developer": "view listen emit operate deploy",
    "admin": "view listen emit operate deploy administer",
}
namespaces = st.sampled_from(["sales", "ops", "*"])
patterns = st.lists(st.sampled_from(["raw_*", "orders", "?", "*"]), max_size=3).map(tuple)
grants = st.builds(
    Grant,
    role=st.sampled_from(AccessRole),
    namespace=namespaces,
    names=patterns,
    shell=st.booleans(),
    masters=st.lists(st.sampled_from(["local*", "spark://*", "yarn"]), max_size=2).map(tuple),
)
callers = st.builds(Caller, st.just("token:t"), st.lists(grants, max_size=5).map(tuple))


@given(callers, st.sampled_from(Permission), st.sampled_from(["sales", "ops", "other", None]))
def test_a_permission_is_given_by_one_grant(caller: Caller, permission: Permission, namespace: str | None) -> None:
    expected = any(
        permission.value in MODEL[grant.role.value].split() and grant.namespace in ("*", namespace)
        for grant in caller.grants
    )
    verdict = caller.may(permission, namespace)
    assert isinstance(verdict, Allowed) == expected
    if isinstance(verdict, Denied):
        assert permission.value in verdict.reason


@given(callers, st.sampled_from(["sales", "ops"]), st.sampled_from(["raw_a", "orders", "x", "other"]))
def test_names_restrict_what_is_announced(caller: Caller, namespace: str, name: str) -> None:
    expected = any(
        "emit" in MODEL[grant.role.value].split()
        and grant.namespace in ("*", namespace)
        and (not grant.names or any(fnmatchcase(name, each) for each in grant.names))
        for grant in caller.grants
    )
    assert isinstance(caller.may_emit(namespace, name), Allowed) == expected


@given(callers, st.sampled_from(["local[2]", "spark://m:7077", "k8s://x"]))
def test_shell_and_masters_need_their_own_permission(caller: Caller, master: str) -> None:
    deploying = [
        g for g in caller.grants if g.role in (AccessRole.DEVELOPER, AccessRole.ADMIN) and g.namespace in ("*", "sales")
    ]
    shell = any(grant.shell or grant.role is AccessRole.ADMIN for grant in deploying)
    masters = any(g.role is AccessRole.ADMIN or any(fnmatchcase(master, each) for each in g.masters) for g in deploying)
    assert isinstance(caller.may_execute("sales"), Allowed) == shell
    assert isinstance(caller.may_use_master("sales", master), Allowed) == masters


@given(st.lists(grants, max_size=5).map(tuple))
def test_grants_survive_json(found: tuple[Grant, ...]) -> None:
    assert GRANT.read_list([GRANT.write(grant) for grant in found]) == found


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"role": "king"}, "$.grants[0].role"),
        ({}, "$.grants[0].role"),
        ({"role": "viewer", "namespace": "a.b"}, "$.grants[0]"),
        ({"role": "viewer", "namespace": ""}, "$.grants[0]"),
        ({"role": "emitter", "names": "raw"}, "$.grants[0].names"),
        ({"role": "emitter", "names": ["x" * 300]}, "$.grants[0].names[0]"),
        ({"role": "emitter", "names": [""]}, "$.grants[0].names[0]"),
        ({"role": "viewer", "sudo": True}, "$.grants[0].sudo"),
        ("viewer", "$.grants[0]"),
    ],
)
def test_a_bad_grant_is_refused_with_its_path(value: Json, path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        GRANT.read_list([value], "$.grants")
    assert refused.value.path.startswith(path)
