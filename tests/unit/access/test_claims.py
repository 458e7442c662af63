"""What the roles of an OpenID provider give."""

from __future__ import annotations

import pytest

from streamsched.domain.access.claims import grants_from_text
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import InvalidError


def test_a_role_gives_shell_where_it_says_so() -> None:
    found = grants_from_text("team=developer+shell@sales, team=developer@ops, all=developer+shell")
    assert found["team"] == (
        Grant(role=AccessRole.DEVELOPER, namespace="sales", shell=True),
        Grant(role=AccessRole.DEVELOPER, namespace="ops"),
    )
    assert found["all"] == (Grant(role=AccessRole.DEVELOPER, shell=True),)


@pytest.mark.parametrize(
    "text",
    ["a=operator+shell", "a=viewer+shell@x", "a=developer+", "a=developer+masters", "a=+shell", "a=developer+shell@"],
)
def test_other_additions_are_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        grants_from_text(text)
