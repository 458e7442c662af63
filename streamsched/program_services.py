"""Composition of what programs and people keep beside schedules: preferences of a namespace, bookmarks of
readers, commits of file sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.store.catalog.bookmarks import PostgresBookmarkStore
from streamsched.store.catalog.file_set_commits import PostgresFileSetCommitStore
from streamsched.store.catalog.preferences import PostgresPreferenceStore
from streamsched.store.connections import Pool


def program_services(pool: Pool) -> Mapping[str, Any]:
    """These services of the HTTP application (`ApiServices`)."""
    return {
        "preferences": PostgresPreferenceStore(pool),
        "bookmarks": PostgresBookmarkStore(pool),
        "file_set_commits": PostgresFileSetCommitStore(pool),
    }
