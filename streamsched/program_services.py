"""Composition of what programs and people keep beside schedules: preferences of a namespace, bookmarks of readers,
names of datasets in OpenLineage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.config import Settings
from streamsched.store.catalog.bookmarks import PostgresBookmarkStore
from streamsched.store.catalog.preferences import PostgresPreferenceStore
from streamsched.store.connections import Pool


def program_services(pool: Pool, settings: Settings) -> Mapping[str, Any]:
    """These services of the HTTP application (`ApiServices`)."""
    return {
        "preferences": PostgresPreferenceStore(pool),
        "bookmarks": PostgresBookmarkStore(pool),
        "lineage_datasets": settings.datasets_by_location(),
    }
