"""streamsched: starts the right Spark job seconds after its inputs are complete."""

__version__ = "0.1.0"

from streamsched.define.app import App
from streamsched.define.when import When, at, cron, event, every, partitions, program, stream_size

__all__ = ["App", "When", "__version__", "at", "cron", "event", "every", "partitions", "program", "stream_size"]
