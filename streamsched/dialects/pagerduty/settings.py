"""Settings of the topics that PagerDuty's clients write to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamsched.setting_values import SettingGroup, pairs, setting, url


def _queues(text: str) -> dict[str, str]:
    """The queue of each topic."""
    listed = (each if "=" in each else f"{each.strip()}={each}" for each in text.split(",") if each.strip())
    return pairs(",".join(listed), "topic=queue,topic=queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class PagerdutySettings(SettingGroup):
    """Topics of PagerDuty's clients.

    Attributes:
        topics: topics with tasks of PagerDuty's clients: comma-separated `topic`, or `topic=queue`.
        log_url: the log of these topics; default: the log.
    """

    VARIABLES: ClassVar[str] = "task_"

    topics: Mapping[str, str] = setting("", _queues)
    log_url: str = setting("", url("a URL such as kafka://…"))
