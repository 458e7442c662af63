"""Which pages a person may open: what the dispatch checks before a page, asked for an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

from starlette.requests import Request
from starlette.routing import compile_path

from streamsched.api.access.authorise import check_rule
from streamsched.api.routing.rules import Rule, Scope
from streamsched.domain.access.grant import EVERYWHERE, Caller
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import ForbiddenError, NotFoundError

_LINK: Final = re.compile(r'(<a\b[^>]*?) href="(/ui/[^"]*)"')


def check_entrance(caller: Caller, rule: Rule, request: Request) -> str:
    """Checks that the caller may see the page. Returns the address to go to instead; empty: this page.

    Raises:
        ForbiddenError, NotFoundError: as `check_rule`.
    """
    elsewhere = _within_own_namespace(caller, rule, request)
    if not elsewhere:
        check_rule(caller, rule, request)
    return elsewhere


class PageAccess:
    """The pages by their addresses, with their rules, by the names of the pages."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._pages = [
            (compile_path(name.removeprefix("GET "))[0], rule)
            for name, rule in rules.items()
            if name.startswith("GET ")
        ]

    def may_open(self, caller: Caller, href: str) -> bool:
        """Whether the page at an address, beginning with `/ui/`, would be shown. False where there is no page."""
        address = urlsplit(href)
        path = unquote(address.path)
        for pattern, rule in self._pages:
            if found := pattern.match(path):
                asked = {
                    "type": "http",
                    "method": "GET",
                    "path": address.path,
                    "headers": [],
                    "query_string": address.query.encode(),
                    "path_params": found.groupdict(),
                }
                try:
                    check_entrance(caller, rule, Request(asked))
                except (ForbiddenError, NotFoundError):
                    return False
                return True
        return False

    def without_refused_links(self, markup: str, caller: Caller) -> str:
        """A page whose links to what would be refused have no address: they are text. To judge a link costs some ten
        microseconds, to find them 1 ms in 1,000 rows; each address is judged once.
        """
        known: dict[str, bool] = {}

        def keep_link(found: re.Match[str]) -> str:
            href = found[2]
            if href not in known:
                known[href] = self.may_open(caller, unescape(href))
            return found[0] if known[href] else found[1]

        return _LINK.sub(keep_link, markup)


def _within_own_namespace(caller: Caller, rule: Rule, request: Request) -> str:
    """Lists of a person without a role in all namespaces show one of theirs."""
    query = request.query_params
    if rule.scope is not Scope.QUERY or query.get("namespace") or request.method not in {"GET", "HEAD"}:
        return ""
    own = sorted(caller.namespaces(Permission.VIEW))
    if EVERYWHERE in own or not own:
        return ""
    return f"{request.url.path}?{urlencode([*query.multi_items(), ('namespace', own[0])])}"
