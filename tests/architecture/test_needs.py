"""Only `need` of `tests/support/services.py` skips a test: with `CI=true` a missing service is never a skip."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.services import need

TESTS = Path(__file__).parents[1]
SKIPS = re.compile(r"pytest\.skip\(|mark\.skip|importorskip|@unittest\.skip")
ALLOWED = {"support/services.py", "architecture/test_needs.py"}


def test_only_need_skips() -> None:
    skipping = {
        path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if SKIPS.search(path.read_text("utf-8"))
    }

    assert skipping <= ALLOWED


def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="Redis is missing; to install it: apt-get install redis-server"):
        need("Redis", False, "apt-get install redis-server")


def test_what_is_missing_skips_elsewhere_and_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="Redis is missing; to install it: apt-get install redis-server"):
        need("Redis", False, "apt-get install redis-server")
