"""The topics of the log: their names, partitions and cleanup, and the public topic of each kind of fact."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, assert_never

from streamsched.domain.events.event import CustomHappened, Fact, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.ports.broker import Cleanup, TopicSpec

PARTITIONS: Final = "partitions"
STREAM_SIZES: Final = "stream-sizes"
PROGRAM_STATUS: Final = "program-status"
EVENTS: Final = "events"
SIGNALS: Final = "signals"
#: What a shard has judged in the turn that read it, beside what came through `signals`.
JUDGED: Final = "judged"
LAUNCH: Final = "launch"
DEAD_LETTER: Final = "dead-letter"
WAKEUPS: Final = "wakeups"
LATE: Final = "late"
VERDICTS: Final = "verdicts"
RELAY_POSITION: Final = "relay-position"
#: Has the layout of an installation that was resharded.
LAYOUT: Final = "layout"
LAYOUT_KEY: Final = b"layout"

#: Topics to which clients write.
PUBLIC: Final = (PARTITIONS, STREAM_SIZES, PROGRAM_STATUS, EVENTS)

#: The Faust app id; Faust derives the name of a changelog from it and the name of the table.
APP_ID: Final = "streamsched"
SUBSCRIPTIONS_CHANGELOG: Final = f"{APP_ID}-subscriptions-changelog"
SEEN_CHANGELOG: Final = f"{APP_ID}-seen-changelog"
TRIGGERS_CHANGELOG: Final = f"{APP_ID}-triggers-changelog"
#: Reserved key of the triggers changelog: where the shard's next turn starts, committed with the state it belongs to.
POSITION_KEY: Final = b"\0position"
#: Reserved key: the shard continues in another generation and must not run in this one.
RETIRED_KEY: Final = b"\0retired"
#: Reserved key: the process that runs the shard, and its careful turn if any (`stream.crash_guard`).
ATTEMPT_KEY: Final = b"\0attempt"
#: Reserved key: what the shard remembers of barriers (`codec.records.barrier`).
BARRIERS_KEY: Final = b"\0barriers"
#: Reserved key: which namespaces wait for their records (`stream.backlogs`).
BACKLOGS_KEY: Final = b"\0backlogs"
#: The prefix of reserved keys.
RESERVED: Final = b"\0"
CHANGELOGS: Final = (SUBSCRIPTIONS_CHANGELOG, SEEN_CHANGELOG, TRIGGERS_CHANGELOG)
#: Topics whose partitions are homes.
KEYED: Final = (SIGNALS, JUDGED, *CHANGELOGS)

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
#: All topics but those of later generations.
ALL_TOPICS: Final = (*PUBLIC, LAUNCH, WAKEUPS, LATE, VERDICTS, DEAD_LETTER, *KEYED, RELAY_POSITION, LAYOUT)


def topic_specs(
    shards: int, retention: timedelta, *, horizon: timedelta = _DAY, unkeyed_partitions: int | None = None
) -> tuple[TopicSpec, ...]:
    """All topics of an installation with `shards` shards. Topics cleaned by age keep records for `retention`;
    changelogs keep tombstones as long as ids of events are known (`horizon`), from an hour to a day.

    `unkeyed_partitions`: partitions of the topics that are not keyed by homes; by default the number of shards.
    """
    names = (*PUBLIC, LAUNCH, WAKEUPS, LATE, VERDICTS, DEAD_LETTER)
    kept = tuple(TopicSpec(name, unkeyed_partitions or shards, Cleanup.DELETE, retention) for name in names)
    single = tuple(TopicSpec(name, 1, Cleanup.COMPACT) for name in (RELAY_POSITION, LAYOUT))
    return (*kept, *keyed_specs(shards, retention, horizon=horizon), *single)


def keyed_specs(shards: int, retention: timedelta, *, horizon: timedelta = _DAY) -> tuple[TopicSpec, ...]:
    """The topics whose partitions are homes. Most tombstones of a changelog are of ids beyond the horizon: kept for
    longer, they would outnumber what there is, and every start reads them.
    """
    kept = min(max(horizon, _HOUR), _DAY)
    compacted = tuple(TopicSpec(name, shards, Cleanup.COMPACT, tombstones=kept) for name in CHANGELOGS)
    aged = (TopicSpec(name, shards, Cleanup.DELETE, retention) for name in (SIGNALS, JUDGED))
    return (*aged, *compacted)


def public_topic(fact: Fact) -> str:
    """The public topic to which events with this fact are written."""
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
            raise ValueError("ticks are emitted by the timers and have no public topic")
        case _:
            assert_never(fact)
