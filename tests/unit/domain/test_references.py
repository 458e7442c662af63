"""Verdicts on references to other namespaces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsched.domain.access.grant import ALLOWED, Caller, Denied, Grant
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind, covering_grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.references import Recorded, SharedName, Subscription, judge

PAYROLL = Subscription(kind=SharedKind.PROGRAM, namespace="finance", name="pay.payroll", path="$.trigger.programId")
POOL = SharedName(kind=SharedKind.POOL, name="cluster", path="$.constraints[0].pool")
OWN = Caller("token:s", (Grant(role=AccessRole.DEVELOPER, namespace="sales"),))
VIEWER = Caller("token:v", (*OWN.grants, Grant(role=AccessRole.VIEWER, namespace="finance")))
BOTH = Caller("token:b", (*OWN.grants, Grant(role=AccessRole.DEVELOPER, namespace="finance")))
GIVEN = NamespaceGrant(
    owner="finance", kind=SharedKind.PROGRAM, name="pay.payroll", grantee="sales", state=GrantState.GRANTED
)
PENDING, REFUSED = (replace(GIVEN, state=each) for each in (GrantState.PENDING, GrantState.REFUSED))


def verdict(reference: Subscription | SharedName, caller: Caller, *grants: NamespaceGrant) -> type:
    return type(judge(reference, caller, "sales", "finance", grants))


def test_grants_decide_before_roles_and_a_refusal_before_both() -> None:
    assert verdict(PAYROLL, OWN) is Denied
    for grants in ([GIVEN], [PENDING], [replace(GIVEN, name="*")]):
        assert judge(PAYROLL, OWN, "sales", "finance", grants) is ALLOWED
    assert verdict(PAYROLL, OWN, replace(GIVEN, kind=SharedKind.DATASET)) is Denied
    assert verdict(PAYROLL, VIEWER) is Recorded
    assert verdict(PAYROLL, VIEWER, PENDING) is Recorded
    assert verdict(PAYROLL, BOTH, REFUSED) is Denied
    assert verdict(PAYROLL, BOTH, REFUSED, replace(GIVEN, name="*")) is Denied
    assert judge(PAYROLL, OWN, "finance", "finance", ()) is ALLOWED


def test_reading_arguments_of_anothers_runs_needs_details() -> None:
    reading = replace(PAYROLL, details=True)
    assert verdict(reading, OWN, GIVEN) is Denied
    assert verdict(reading, OWN, PENDING) is type(ALLOWED)
    assert verdict(reading, OWN, replace(GIVEN, details=True)) is type(ALLOWED)
    found = judge(reading, VIEWER, "sales", "finance", [GIVEN])
    assert isinstance(found, Recorded)
    assert (found.grant.details, found.grant.by) == (True, "token:v")


def test_a_group_or_pool_needs_deploy_where_it_belongs() -> None:
    assert verdict(POOL, OWN) is Denied
    assert verdict(POOL, VIEWER) is Denied
    found = judge(POOL, BOTH, "sales", "finance", ())
    assert isinstance(found, Recorded)
    assert found.grant.details is False


@pytest.mark.parametrize("reversed_", [False, True])
def test_the_exact_name_decides_before_patterns_whatever_their_order(reversed_: bool) -> None:
    grants = [replace(REFUSED, name="pay.*"), replace(GIVEN, name="*", details=True), GIVEN]
    if reversed_:
        grants.reverse()
    assert covering_grant(SharedKind.PROGRAM, "pay.payroll", grants) is GIVEN
    assert covering_grant(SharedKind.PROGRAM, "pay.bonus", grants) == replace(REFUSED, name="pay.*")
    assert covering_grant(SharedKind.PROGRAM, "hr.hire", grants) == replace(GIVEN, name="*", details=True)
