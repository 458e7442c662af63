"""The topics of the log: their names, their shapes, and which fact goes where."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, assert_never

from streamsched.domain.event import CustomHappened, Fact, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.ports.broker import Cleanup, TopicSpec

PARTITIONS: Final = "partitions"
STREAM_SIZES: Final = "stream-sizes"
PROGRAM_STATUS: Final = "program-status"
EVENTS: Final = "events"
SIGNALS: Final = "signals"
LAUNCH: Final = "launch"
DEAD_LETTER: Final = "dead-letter"
WAKEUPS: Final = "wakeups"
LATE: Final = "late"
VERDICTS: Final = "verdicts"
RELAY_POSITION: Final = "relay-position"
#: Where it is said how the installation lies in the log, once it has been resharded.
LAYOUT: Final = "layout"
LAYOUT_KEY: Final = b"layout"

#: What anyone may write to.
PUBLIC: Final = (PARTITIONS, STREAM_SIZES, PROGRAM_STATUS, EVENTS)

#: The Faust app id; changelogs are named after it and the table.
APP_ID: Final = "streamsched"
SUBSCRIPTIONS_CHANGELOG: Final = f"{APP_ID}-subscriptions-changelog"
SEEN_CHANGELOG: Final = f"{APP_ID}-seen-changelog"
TRIGGERS_CHANGELOG: Final = f"{APP_ID}-triggers-changelog"
#: Reserved key of the triggers changelog: where the shard's next turn starts, committed with the state it belongs to.
POSITION_KEY: Final = b"\0position"
#: Reserved as well: the shard lives on in another generation, and must not be run here any more.
RETIRED_KEY: Final = b"\0retired"
#: What reserved keys begin with.
RESERVED: Final = b"\0"
CHANGELOGS: Final = (SUBSCRIPTIONS_CHANGELOG, SEEN_CHANGELOG, TRIGGERS_CHANGELOG)
#: Whose partitions are homes.
KEYED: Final = (SIGNALS, *CHANGELOGS)


def topic_specs(shards: int, retention: timedelta, *, outlets: int | None = None) -> tuple[TopicSpec, ...]:
    """Every topic of an installation with that many shards; topics cleaned by age keep records for `retention`.

    `outlets`: partitions of the topics that are not keyed by homes, where they are not as many as there are shards.
    """
    names = (*PUBLIC, LAUNCH, WAKEUPS, LATE, VERDICTS, DEAD_LETTER)
    kept = tuple(TopicSpec(name, outlets or shards, Cleanup.DELETE, retention) for name in names)
    single = tuple(TopicSpec(name, 1, Cleanup.COMPACT) for name in (RELAY_POSITION, LAYOUT))
    return (*kept, *keyed_specs(shards, retention), *single)


def keyed_specs(shards: int, retention: timedelta) -> tuple[TopicSpec, ...]:
    """Those whose partitions are homes."""
    compacted = tuple(TopicSpec(name, shards, Cleanup.COMPACT) for name in CHANGELOGS)
    return (TopicSpec(SIGNALS, shards, Cleanup.DELETE, retention), *compacted)


def public_topic(fact: Fact) -> str:
    """The public topic a fact from outside is written to."""
    match fact:
        case PartitionsAdded():
            return PARTITIONS
        case StreamSize():
            return STREAM_SIZES
        case ProgramReached():
            return PROGRAM_STATUS
        case CustomHappened():
            return EVENTS
        case Ticked():
            raise ValueError("ticks come from the timers, never through a public topic")
        case _:
            assert_never(fact)
