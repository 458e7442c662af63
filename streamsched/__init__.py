"""streamsched: starts the right Spark job seconds after its inputs are complete."""

__version__ = "0.1.0"

from streamsched.define.again import failures, retry
from streamsched.define.app import App
from streamsched.define.days import calendar
from streamsched.define.limit import catch_up, group, load, plugin, pool, rate, window
from streamsched.define.phrase import When, at_least, silence, then
from streamsched.define.promise import finish_by, start_by, takes_at_most
from streamsched.define.when import (
    at,
    cron,
    event,
    every,
    glob,
    partitions,
    program,
    stream_size,
    total,
)

__all__ = [
    "App",
    "When",
    "__version__",
    "at",
    "at_least",
    "calendar",
    "catch_up",
    "cron",
    "event",
    "every",
    "failures",
    "finish_by",
    "glob",
    "group",
    "load",
    "partitions",
    "plugin",
    "pool",
    "program",
    "rate",
    "retry",
    "silence",
    "start_by",
    "stream_size",
    "takes_at_most",
    "then",
    "total",
    "window",
]
