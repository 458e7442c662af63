"""Sizes of the topics that producers outside the installation write, for watchers of topics."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from streamsched.domain.events.topic_growth import TopicSize


@runtime_checkable
class TopicSizes(Protocol):
    """Measures topics; a broker driver that can do it has this method besides those of `Broker`."""

    async def topic_size(self, topic: str, *, sizes: bool) -> TopicSize:
        """Measures all partitions. Those without a leader, and those whose broker does not answer, are away.

        Without `sizes` every size is 0, and the permission to read sizes is not needed.

        Raises:
            NotFoundError: there is no such topic now.
            UnavailableError: no partition can be measured.
            ConfigurationError: the log is too old, or denies the measurement.
        """
        ...
