"""Tests, examples and what starts servers are type-checked as the product is; `make check` checks the product alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_tests_examples_and_compose_have_no_type_error() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "pyright", "--project", "tests/pyrightconfig.json", "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
