"""Placeholders of shell commands: whatever a value is, bash reads it as one word or text, never as syntax."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.schedules.shell_command import fill_for_shell

NASTY = "$(touch x) `id` \"a\" 'b' \\ ; | & * ${HOME} {}"


def _printed(command: str, value: str) -> str:
    done = subprocess.run(
        ["bash", "-c", fill_for_shell(command)],
        env={"STREAMSCHED_ARG_X": value, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        timeout=20,
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("printf '[%s]' {x}", f"[{NASTY}]"),
        ("printf '[%s]' a{x}b", f"[a{NASTY}b]"),
        ('printf "[%s]" "a {x} b"', f"[a {NASTY} b]"),
        ("printf '[%s]' 'a {x} b'", f"[a {NASTY} b]"),
        ("printf '[%s]' \"it's {x}\"", f"[it's {NASTY}]"),
        ("printf '[%s]' \\\" {x}", f'["][{NASTY}]'),
        ("printf '[%s]' '\\' {x}", f"[\\][{NASTY}]"),
        ("echo a | awk '{{print $1}}'; printf %s ${{HOME:-none}} {x}", f"a\nnone{NASTY}"),
    ],
)
def test_a_value_is_a_text_wherever_its_placeholder_is(command: str, printed: str) -> None:
    assert _printed(command, NASTY) == printed


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_any_value_is_printed_as_it_is(value: str) -> None:
    assert _printed("printf '<%s>' {x} \"{x}\" '{x}'", value) == f"<{value}>" * 3


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo {date}", "names {date}, which is none of: job_id, x"),
        ("awk '{print}'", "names {print}"),
        ("awk '{print $1}'", "has a single '{' at character 6; write '{{' for a brace"),
        ("echo }", "has a single '}'"),
    ],
)
def test_what_is_no_placeholder_is_refused(command: str, why: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        fill_for_shell(command, ("x", "job_id"), "$.a.bash_cmd")
    assert caught.value.path == "$.a.bash_cmd"
    assert why in caught.value.reason
