"""`python -m compose.kafka start | stop | kill`: a local Kafka without Docker."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compose.downloads import MissingError
from compose.kafka.cluster import Cluster, NotReadyError
from compose.kafka.properties import Address, Shape


def main() -> int:
    """Starts or stops the cluster of a folder. Exit code 1: it could not be started."""
    parser = argparse.ArgumentParser(prog="python -m compose.kafka", description=__doc__)
    parser.add_argument("what", choices=("start", "stop", "kill"))
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument(
        "--port", type=int, default=9092, help="port of the first broker; each uses two (9092 and 9093, …)"
    )
    parser.add_argument("--folder", type=Path, default=Path(".kafka"), help="folder of data, logs and pids")
    args = parser.parse_args()
    nodes = tuple(Address(args.port + 2 * n, args.port + 2 * n + 1) for n in range(args.brokers))
    cluster = Cluster(args.folder.absolute(), Shape(nodes))
    match args.what:
        case "start":
            try:
                cluster.start()
            except (MissingError, NotReadyError) as error:
                sys.stderr.write(f"{error}\n")
                return 1
            sys.stdout.write(f"Kafka is up: export STREAMSCHED_BROKER_URL={cluster.url}\n")
        case "stop":
            cluster.stop()
        case _:
            cluster.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
