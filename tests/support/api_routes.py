"""The routes of the API, made once in a test process: applications share them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from starlette.routing import BaseRoute

from streamsched.api.app import make_routes


@cache
def api_routes() -> Sequence[BaseRoute]:
    return make_routes()
