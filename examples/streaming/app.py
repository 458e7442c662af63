"""A stream that grows, and a compaction for every so many bytes of it.

STREAM_DATA=/data/clicks streamsched deploy examples/streaming/app.py
"""

import os
from pathlib import Path

from streamsched import App, program, stream_size

DATA = str(Path(os.environ.get("STREAM_DATA", "stream-data")).resolve())
EVERY = os.environ.get("STREAM_EVERY", "64KB")

# For a few thousand rows on a laptop: the JVM's start dominates such a job.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

app = App("clicks")
compact = app.spark("compact", main="compact.py", arguments=["--data", "{data}"], conf=SMALL)
done = app.bash("done", 'echo "compacted below $STREAMSCHED_ARG_DATA"')

# One compaction at a time; growth that arrives while it runs counts for the next.
app.schedule(
    "compaction",
    compact,
    when=stream_size("clicks", EVERY),
    max_concurrent=1,
    properties={"data": DATA},
    description=f"small files of the stream become one, for every {EVERY} of growth",
)
app.schedule("report", done, when=program(compact, "succeeded"), properties={"data": DATA})
