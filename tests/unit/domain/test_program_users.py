"""As whom programs run: the most specific rule counts."""

from __future__ import annotations

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.program_users import ProgramUsers

USERS = ProgramUsers.parse("sales=alice, sales.pay.roll=bob,*=nobody")


def test_the_most_specific_rule_names_the_user() -> None:
    assert USERS.user_of(ProgramRef("sales", "pay", "roll")) == "bob"
    assert USERS.user_of(ProgramRef("sales", "pay", "other")) == "alice"
    assert USERS.user_of(ProgramRef("finance", "pay", "roll")) == "nobody"
    assert ProgramUsers.parse("sales=alice").user_of(ProgramRef("finance", "pay", "roll")) == ""


@pytest.mark.parametrize(
    "text", ["sales", "sales=", "=alice", "sales.pay=alice", "sales=a b", "sales=a,sales=b", "a;b=c"]
)
def test_what_names_no_user_of_a_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinitionError):
        ProgramUsers.parse(text)
