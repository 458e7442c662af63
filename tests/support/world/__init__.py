"""What a database holds, in the words of the product: the only place of the tests outside of the store with its SQL."""

from __future__ import annotations

from tests.support.world.rows import HistoryLine, StoredJob, StoredNode, StoredRun, StoredSlot, StoredTask
from tests.support.world.world import StoredWorld

__all__ = ["HistoryLine", "StoredJob", "StoredNode", "StoredRun", "StoredSlot", "StoredTask", "StoredWorld"]
