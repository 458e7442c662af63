"""Named queries as the repositories load them."""

from __future__ import annotations

from importlib.resources import files

import pytest

from streamsched.store.sql import queries

NAMES = sorted(entry.name.removesuffix(".sql") for entry in files("streamsched.store").joinpath("sql").iterdir())


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
        queries("outbox")["write"] = "DROP TABLE outbox"  # type: ignore[index]
