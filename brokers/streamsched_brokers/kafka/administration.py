"""Kafka's requests about topics: sending them and decoding the responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Schema, String

from streamsched_brokers.kafka.link import KafkaConnection

_TOPIC: Final = 2
_BROKER: Final = 4
_COPIES: Final = "default.replication.factor"
_SET: Final = 0
_CREATE_MS: Final = 15_000


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The partitions and replicas of a topic. `led`: every partition has a leader now."""

    partitions: int
    replication: int
    led: bool


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """A topic to be created."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


async def layouts(link: KafkaConnection, topics: Sequence[str]) -> dict[str, TopicLayout]:
    """The layouts of those topics that exist; does not create topics."""
    answer = await link.any_broker(MetadataRequest(list(topics), allow_auto_topic_creation=False))
    found: dict[str, TopicLayout] = {}
    for error, name, _internal, partitions in answer.topics:
        if error == kafka.UnknownTopicOrPartitionError.errno:
            continue
        if error not in {0, kafka.LeaderNotAvailableError.errno}:
            raise kafka.for_code(error)(name)
        copies = {len(replicas) for _, _, _, replicas, *_ in partitions} or {0}
        led = error == 0 and bool(partitions) and all(leader >= 0 for _, _, leader, *_ in partitions)
        found[name] = TopicLayout(len(partitions), min(copies), led)
    return found


async def brokers(link: KafkaConnection) -> Sequence[int]:
    """The ids of the brokers available now."""
    answer = await link.any_broker(MetadataRequest([], allow_auto_topic_creation=False))
    return sorted(broker[0] for broker in answer.brokers)


async def usual_copies(link: KafkaConnection, node: int) -> int:
    """The broker's `default.replication.factor`; 1 when it is not reported."""
    answer = await link.client.send(node, DescribeConfigsRequest([(_BROKER, str(node), [_COPIES])]))
    (_error, _message, _type, _name, entries), *_ = answer.resources
    return next((int(entry[1]) for entry in entries if entry[0] == _COPIES), 1)


async def create(link: KafkaConnection, plans: Sequence[TopicChanges]) -> None:
    """Creates the topics; one that exists already is not changed."""
    wanted: list[Any] = [
        (plan.name, plan.partitions, plan.replication, [], list(plan.settings.items())) for plan in plans
    ]
    answer = await link.any_broker(CreateTopicsRequest(wanted, _CREATE_MS, validate_only=False))
    for name, error, message in answer.topic_errors:
        if error not in {0, kafka.TopicAlreadyExistsError.errno}:
            raise kafka.for_code(error)(f"{name}: {message}")


async def settings(link: KafkaConnection, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """All settings of these topics, including the brokers' defaults."""
    answer = await link.any_broker(DescribeConfigsRequest([(_TOPIC, name, None) for name in topics]))
    found: dict[str, dict[str, str]] = {}
    for error, message, _type, name, entries in answer.resources:
        if error:
            raise kafka.for_code(error)(f"{name}: {message}")
        found[name] = {entry[0]: entry[1] for entry in entries}
    return found


async def change(link: KafkaConnection, topic: str, changes: Mapping[str, str]) -> None:
    """Sets these settings of a topic; its other settings do not change."""
    answer = await link.any_broker(IncrementalAlterConfigsRequest(topic, changes))
    for error, message, _type, name in answer.resources:
        if error:
            raise kafka.for_code(error)(f"{name}: {message}")


class IncrementalAlterConfigsResponse(Response):
    """Key 44, version 0."""

    API_KEY = 44  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    API_VERSION = 0  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class IncrementalAlterConfigsStruct(RequestStruct):
    """Key 44, version 0: aiokafka has only the older request, which resets every setting it does not name."""

    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = IncrementalAlterConfigsResponse
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                (
                    "configs",
                    Array(("name", String("utf-8")), ("operation", Int8), ("value", String("utf-8"))),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsStruct]):
    """Sets some settings of one topic."""

    API_KEY = 44

    def __init__(self, topic: str, changes: Mapping[str, str]) -> None:
        self._topic = topic
        self._changes = changes

    def build(self, request_struct_class: type[IncrementalAlterConfigsStruct]) -> IncrementalAlterConfigsStruct:
        """Each change sets one setting of the topic; settings that are not named stay."""
        changes = [(name, _SET, value) for name, value in self._changes.items()]
        return request_struct_class([(_TOPIC, self._topic, changes)], False)
