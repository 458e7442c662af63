"""The variables of a launcher: which a program gets, and what a failed one is told about the others."""

from __future__ import annotations

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.inherited_environment import (
    ALL,
    DEFAULT,
    InheritedEnvironment,
    environment_hint,
    parse_names,
)
from streamsched.domain.programs.secret_rules import parse_rules

LAUNCHER = {
    "PATH": "/bin",
    "LC_TIME": "C",
    "https_proxy": "http://proxy",
    "AWS_SECRET_ACCESS_KEY": "x",
    "SHOP_KEY": "y",
    "STREAMSCHED_DATABASE_URL": "postgresql://u:p@h/d",
}


def test_by_default_programs_get_no_credentials() -> None:
    found = InheritedEnvironment(LAUNCHER, parse_names(DEFAULT))

    assert found.passed == {"PATH": "/bin", "LC_TIME": "C", "https_proxy": "http://proxy"}
    assert found.withheld == ("AWS_SECRET_ACCESS_KEY", "SHOP_KEY")


def test_all_variables_are_those_without_secrets_and_the_installations_own() -> None:
    found = InheritedEnvironment(LAUNCHER, parse_names(ALL), parse_rules("shop=env:SHOP_*"))

    assert set(found.passed) == {"PATH", "LC_TIME", "https_proxy", "AWS_SECRET_ACCESS_KEY"}
    assert found.withheld == ()


@pytest.mark.parametrize("text", ["A B", "PATH,1X", "STREAMSCHED_DATABASE_URL", "A=b"])
def test_what_is_no_name_of_a_variable_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinitionError):
        parse_names(text)


def test_a_failed_program_is_told_which_of_the_launchers_variables_it_names() -> None:
    withheld = ("AB", "AWS_REGION", "SHOP_KEY", "UNNAMED")

    said = environment_hint(withheld, {"AWS_REGION": ""}, ("echo $SHOP_KEY $AB", "KeyError: 'AWS_REGION'"))

    assert said == "SHOP_KEY is a variable of the launcher that programs do not get (STREAMSCHED_PROGRAM_ENVIRONMENT)"
    assert environment_hint(withheld, (), ("SHOP_KEYS",)) == ""
