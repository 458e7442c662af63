"""The driver's statements, read from the `.sql` files beside this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import LiteralString, cast

_HEAD = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries() -> Mapping[str, LiteralString]:
    """The named statements of `queries.sql`. They are used as literals: no values are interpolated."""
    _, *parts = _HEAD.split(_text("queries.sql"))
    return {name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def schema() -> LiteralString:
    """The whole of `schema.sql`."""
    return cast(LiteralString, _text("schema.sql"))


def _text(name: str) -> str:
    return files("streamsched_brokers.postgres").joinpath(name).read_text(encoding="utf-8")
