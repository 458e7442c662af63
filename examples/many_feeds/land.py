"""Announces new partitions of all feeds, or of some: one event for each feed.

python land.py --feeds 1000 --day 2026-01-01
"""

import argparse

from streamsched import Emitter, partitions_added
from streamsched.emit.destination import find_destination


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--feeds", type=int, default=1000)
    parser.add_argument("--day", required=True, help="such as 2026-01-01")
    args = parser.parse_args()
    found = find_destination()
    if found is None:
        parser.error("no installation is known: set STREAMSCHED_EMIT_URL")
    with Emitter(found.url, source="land", spool=found.spool, token=found.token) as emitter:
        emitter.emit(
            *(
                partitions_added(f"raw_{feed:04d}", [f"day={args.day}"], event_id=f"raw_{feed:04d}-{args.day}")
                for feed in range(args.feeds)
            )
        )
    print(f"announced {args.day} of {args.feeds} feeds")


if __name__ == "__main__":
    main()
