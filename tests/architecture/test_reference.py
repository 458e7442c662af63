"""What is made from the code, which `make docs` writes again: `docs/reference/`, and the client that blocks."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from streamsched.codec.schema.apps import app_file_schema
from tests.architecture.reference.blocking_client import TARGET, blocking_client
from tests.architecture.reference.definitions import (
    constraints_page,
    expectations_page,
    policies_page,
    triggers_page,
)
from tests.architecture.reference.designs import designs_page
from tests.architecture.reference.interfaces import (
    cli_page,
    http_page,
    metrics_page,
    pages_page,
    settings_page,
    spans_page,
)
from tests.architecture.reference.markdown import REFERENCE
from tests.support.made_files import assert_written

PAGES: dict[str, Callable[[], str]] = {
    "app.schema.json": lambda: json.dumps(app_file_schema(), indent=1) + "\n",
    "cli.md": cli_page,
    "constraints.md": constraints_page,
    "expectations.md": expectations_page,
    "http.md": http_page,
    "metrics.md": metrics_page,
    "pages.md": pages_page,
    "policies.md": policies_page,
    "seeds.md": designs_page,
    "settings.md": settings_page,
    "spans.md": spans_page,
    "triggers.md": triggers_page,
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_code(name: str) -> None:
    assert_written(REFERENCE / name, PAGES[name]())


def test_the_client_that_blocks_is_the_one_with_await() -> None:
    assert_written(TARGET, blocking_client())
