"""A Kafka that starts and stops: the archive of its classes is made of it (`quick_java`)."""

from __future__ import annotations

import sys
from pathlib import Path

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import BUSY_CLEANER, Shape


def main(folder: Path) -> None:
    """Keeps it in a folder."""
    cluster = Cluster(folder, Shape(free_addresses(1), extra=BUSY_CLEANER))
    cluster.start()
    cluster.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
