"""The client that ships inside users' jobs: light to import, batched, retried, spooled to disk when nobody is there."""

from streamsched.emit.client import AsyncEmitter, Drained, Emitted, Emitter, drain
from streamsched.emit.delivery import Patience
from streamsched.emit.draft import Draft, custom, partitions_added, program_status, stream_size

__all__ = [
    "AsyncEmitter",
    "Draft",
    "Drained",
    "Emitted",
    "Emitter",
    "Patience",
    "custom",
    "drain",
    "partitions_added",
    "program_status",
    "stream_size",
]
