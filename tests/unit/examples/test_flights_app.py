"""The flights example says the same in Python and in YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.define.loading import load_app

FOLDER = Path(__file__).parents[3] / "examples" / "flights"


def test_the_example_in_yaml_is_the_one_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIGHTS_DATA", "/data/flights")

    assert load_app(str(FOLDER / "app.yaml")) == load_app(str(FOLDER / "app.py"))
