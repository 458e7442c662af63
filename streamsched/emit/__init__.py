"""The client library for users' jobs: light to import; batches, retries, and spools to disk without a server.

Names are imported when they are first used: the command line needs only `streamsched.emit.destination`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamsched.emit.client import AsyncEmitter, Drained, Emitted, Emitter, drain
    from streamsched.emit.delivery import RetryLimits
    from streamsched.emit.draft import EventDraft, custom, partitions_added, program_status, stream_size

__all__ = [
    "AsyncEmitter",
    "Drained",
    "Emitted",
    "Emitter",
    "EventDraft",
    "RetryLimits",
    "custom",
    "drain",
    "partitions_added",
    "program_status",
    "stream_size",
]

_MODULES: Final = {
    "streamsched.emit.client": ("AsyncEmitter", "Drained", "Emitted", "Emitter", "drain"),
    "streamsched.emit.delivery": ("RetryLimits",),
    "streamsched.emit.draft": ("EventDraft", "custom", "partitions_added", "program_status", "stream_size"),
}


def __getattr__(name: str) -> Any:
    """Imports a name and stores it, so it is called once per name."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'streamsched.emit' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
