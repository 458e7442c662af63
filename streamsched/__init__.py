"""streamsched: starts the right Spark job seconds after its inputs are complete.

Names are imported at first use, so that definitions (`App`, `partitions` …), jobs (`PartitionedFileSet`, `current_run`,
`Emitter` …) and the command line import only what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streamsched.define.app import App
    from streamsched.define.calendars import calendar
    from streamsched.define.combinators import TriggerExpression, at_least, silence, then
    from streamsched.define.deadlines import finish_by, start_by, takes_at_most
    from streamsched.define.expectations import mail, webhook
    from streamsched.define.keys import rerun_after
    from streamsched.define.limits import catch_up, group, load, plugin, pool, rate, window
    from streamsched.define.needs import secret
    from streamsched.define.retries import failures, retry
    from streamsched.define.triggers import (
        at,
        cron,
        event,
        every,
        glob,
        partitions,
        program,
        since_last_run,
        stream_size,
        total,
    )
    from streamsched.emit import Emitter, partitions_added
    from streamsched.spark.context import current_run
    from streamsched.spark.pfs import PartitionedFileSet
    from streamsched.spark.streaming.batches import write_batches
    from streamsched.spark.streaming.listener import StreamSizeListener
    from streamsched.spark.tables.delta import DeltaDataset
    from streamsched.spark.tables.iceberg import IcebergDataset

__all__ = [
    "App",
    "DeltaDataset",
    "Emitter",
    "IcebergDataset",
    "PartitionedFileSet",
    "StreamSizeListener",
    "TriggerExpression",
    "__version__",
    "at",
    "at_least",
    "calendar",
    "catch_up",
    "cron",
    "current_run",
    "event",
    "every",
    "failures",
    "finish_by",
    "glob",
    "group",
    "load",
    "mail",
    "partitions",
    "partitions_added",
    "plugin",
    "pool",
    "program",
    "rate",
    "rerun_after",
    "retry",
    "secret",
    "silence",
    "since_last_run",
    "start_by",
    "stream_size",
    "takes_at_most",
    "then",
    "total",
    "webhook",
    "window",
    "write_batches",
]

#: Name → its module.
_LAZY: Final = {
    "App": "streamsched.define.app",
    "DeltaDataset": "streamsched.spark.tables.delta",
    "Emitter": "streamsched.emit",
    "IcebergDataset": "streamsched.spark.tables.iceberg",
    "PartitionedFileSet": "streamsched.spark.pfs",
    "StreamSizeListener": "streamsched.spark.streaming.listener",
    "TriggerExpression": "streamsched.define.combinators",
    "at": "streamsched.define.triggers",
    "at_least": "streamsched.define.combinators",
    "calendar": "streamsched.define.calendars",
    "catch_up": "streamsched.define.limits",
    "cron": "streamsched.define.triggers",
    "current_run": "streamsched.spark.context",
    "event": "streamsched.define.triggers",
    "every": "streamsched.define.triggers",
    "failures": "streamsched.define.retries",
    "finish_by": "streamsched.define.deadlines",
    "glob": "streamsched.define.triggers",
    "group": "streamsched.define.limits",
    "load": "streamsched.define.limits",
    "mail": "streamsched.define.expectations",
    "partitions": "streamsched.define.triggers",
    "partitions_added": "streamsched.emit",
    "plugin": "streamsched.define.limits",
    "pool": "streamsched.define.limits",
    "program": "streamsched.define.triggers",
    "rate": "streamsched.define.limits",
    "rerun_after": "streamsched.define.keys",
    "retry": "streamsched.define.retries",
    "secret": "streamsched.define.needs",
    "silence": "streamsched.define.combinators",
    "since_last_run": "streamsched.define.triggers",
    "start_by": "streamsched.define.deadlines",
    "stream_size": "streamsched.define.triggers",
    "takes_at_most": "streamsched.define.deadlines",
    "then": "streamsched.define.combinators",
    "total": "streamsched.define.triggers",
    "webhook": "streamsched.define.expectations",
    "window": "streamsched.define.limits",
    "write_batches": "streamsched.spark.streaming.batches",
}


def __getattr__(name: str) -> Any:
    """Imports a lazy name and stores it, so it is called once per name."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'streamsched' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
