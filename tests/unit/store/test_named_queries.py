"""Named queries as the repositories load them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import store
from streamsched.store.sql import queries

FOLDER = Path(store.__path__[0])
NAMES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.sql"))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_loads_and_every_query_has_a_body(name: str) -> None:
    loaded = queries(name)

    assert loaded
    for query in loaded.values():
        assert [line for line in query.splitlines() if line.strip() and not line.startswith("--")]
        assert not query.endswith(";")


def test_an_unknown_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        queries("nothing")


def test_the_mapping_is_read_only() -> None:
    with pytest.raises(TypeError):
        queries("catalog/outbox")["write"] = "DROP TABLE outbox"  # type: ignore[index]
