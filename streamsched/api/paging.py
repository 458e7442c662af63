"""Query parameters of paged lists (`catalog.paging`): `limit` items (default 100, at most 1000) that follow the cursor
`after`. `next` in the response is the cursor of the following page; the last page has none.
"""

from __future__ import annotations

from typing import Annotated

from streamsched.api.routing.parameters import Query
from streamsched.catalog.paging import moment_cursor, page, read_moment_cursor

__all__ = ["After", "Limit", "moment_cursor", "page", "read_moment_cursor"]

Limit = Annotated[int, Query(ge=1, le=1000, description="Number of items on a page.")]
After = Annotated[str, Query(max_length=4000, description="`next` of the previous page; empty for the first page.")]
