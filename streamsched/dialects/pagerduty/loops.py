"""What copies the topics of PagerDuty's clients into queues."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

from streamsched.dialects.pagerduty.intake import TaskIntake
from streamsched.dialects.pagerduty.settings import PagerdutySettings
from streamsched.domain.errors import ConfigurationError
from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.process.supervision import wait_until_available
from streamsched.roles.launcher import Work
from streamsched.roles.services import Services
from streamsched.store.tasks.intake import PostgresTaskIntake
from streamsched.store.tasks.queues import QueueStore


def task_intakes(services: Services) -> Mapping[str, Work]:
    """The loops by the name of the role, one for each topic.

    Raises:
        ConfigurationError: a topic is one of the installation.
    """
    settings, pool = services.settings, services.pool
    tasks = settings.group(PagerdutySettings)
    own = {spec.name for spec in topic_specs(settings.shards, settings.keep.log)}
    for topic in tasks.topics:
        if topic in own and not tasks.log_url:
            raise ConfigurationError(f"STREAMSCHED_TASK_TOPICS: '{topic}' is a topic of the installation itself")

    async def copy(topic: str, queue: str) -> None:
        async with AsyncExitStack() as stack:
            source, name = services.broker, topic
            if tasks.log_url:
                source = await wait_until_available("task log", lambda: open_broker(tasks.log_url))
                stack.push_async_callback(source.close)
                name = f"task-log:{topic}"
            intake = TaskIntake(
                topic,
                queue,
                broker=source,
                letters=services.broker,
                store=PostgresTaskIntake(pool, queue, name),
                queues=QueueStore(pool),
                clock=services.clock,
                partitions=settings.shards,
                retention=settings.keep.log,
            )
            await intake.run()

    return {f"tasks-of-{topic}": partial(copy, topic, queue) for topic, queue in tasks.topics.items()}
