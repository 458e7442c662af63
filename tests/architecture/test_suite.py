"""Every entry of the table of long tests names something, so that a moved module does not change sides unnoticed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from tests.support.long_tests import LONG, SHORT, SLOWEST, is_long

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("listed", sorted({*LONG, *SHORT, *SLOWEST}))
def test_a_listed_folder_or_module_exists(listed: str) -> None:
    assert (TESTS / listed).exists()


def test_short_modules_are_parts_of_long_folders() -> None:
    assert all(any(each.startswith(f"{folder}/") for folder in LONG) for each in SHORT)
    assert not any(is_long(PurePosixPath(each)) for each in SHORT)
