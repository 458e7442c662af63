"""The routes of the API, made once in a test process: applications share them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from streamsched.api.app import make_routes
from streamsched.api.routing.routes import Route
from streamsched.api.routing.rules import Rule
from streamsched.api.routing.table import RouteTable
from streamsched.web.app import page_rules


@cache
def api_routes() -> RouteTable:
    return make_routes()


@cache
def routes_by_name() -> Mapping[str, Route]:
    """By method and pattern, without those that need no token. Of an app's routes those without its version."""
    return {each.route.name: each.route for each in reversed(api_routes().served) if each.route.rule is not None}


@cache
def api_rules() -> Mapping[str, Rule]:
    """What each route needs that needs a token."""
    return {name: route.rule for name, route in routes_by_name().items() if route.rule is not None}


@cache
def rules_of_pages() -> Mapping[str, Rule]:
    """What each page needs that needs a session."""
    return page_rules()
