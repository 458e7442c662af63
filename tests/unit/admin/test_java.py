"""Which Java is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.admin.checks.java import find_java, major_version


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("Unable to locate a Java Runtime", None),
        ("", None),
    ],
)
def test_the_major_version_of_what_java_prints(text: str, major: int | None) -> None:
    assert major_version(text) == major


def test_java_home_wins_and_a_missing_one_is_none(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)

    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})

    assert found is not None
    assert (found.path, found.major) == (str(java), 11)
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}) is None
    assert find_java({"PATH": str(tmp_path)}) is None
