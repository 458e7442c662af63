"""The client library for users' jobs: light to import; batches, retries, and spools to disk without a server."""

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
