"""Settings of topics that people can change behind the installation's back."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class TopicSettings(Protocol):
    """Checks settings; a broker driver whose topics have any has this method besides those of `Broker`."""

    async def topic_fault(self, topic: str) -> str:
        """What is wrong with the settings of a topic, and what to do, as a part of a sentence; empty: nothing.

        Raises:
            NotFoundError: no such topic.
            UnavailableError: the broker did not answer.
        """
        ...
