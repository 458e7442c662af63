"""A thousand feeds of files: each has its schedule, a priority by its kind, and a window of time if it may wait.

FEEDS=1000 streamsched deploy examples/many_feeds/app.py
"""

import os

from streamsched import App, partitions, pool

FEEDS = int(os.environ.get("FEEDS", "1000"))
AT_ONCE = int(os.environ.get("AT_ONCE", "4"))
NIGHT = os.environ.get("NIGHT", "22:00-06:00").split("-")

#: Kind → priority in the pool, and the hours in which a load may start.
KINDS = {
    "urgent": (100, None),
    "normal": (50, None),
    "bulk": (0, (*NIGHT, "Europe/Berlin")),
}


def kind(feed: int) -> str:
    """One in fifty is urgent, one in five may wait for the night."""
    if feed % 50 == 0:
        return "urgent"
    return "bulk" if feed % 5 == 0 else "normal"


app = App("feeds")
load = app.bash("load", 'echo "loading $STREAMSCHED_ARG_FEED ($STREAMSCHED_ARG_KIND)"')

for feed in range(FEEDS):
    name, of_kind = f"feed-{feed:04d}", kind(feed)
    priority, hours = KINDS[of_kind]
    app.schedule(
        name,
        load,
        when=partitions(f"raw_{feed:04d}", 1),
        window=hours,
        # all feeds share a few slots; free ones go to the highest priority, raised by the time that a job has waited
        constraints=[pool("loads", AT_ONCE, priority=priority)],
        properties={"feed": name, "kind": of_kind},
    )
