"""Kafka's requests for the id of a topic and for the sizes of logs on disk, which aiokafka does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)


class Uuid(AbstractType[bytes]):
    """16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


NO_ID = bytes(16)


class TopicIdsResponse(Response):
    """Key 3, version 12."""

    API_KEY = 3  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    API_VERSION = 12  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class TopicIdsStruct(RequestStruct):
    """Key 3, version 12, of Kafka 2.8 and later."""

    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = TopicIdsResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicIdsRequest(Request[TopicIdsStruct]):
    """The id, the partitions and the leaders of one topic, which is not created."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[TopicIdsStruct]) -> TopicIdsStruct:
        """Asks by name, with an id of zeros, and neither creates the topic nor asks for permissions."""
        return request_struct_class([(NO_ID, self._topic, {})], False, False, {})


class LogDirsResponse(Response):
    """Key 35, version 1."""

    API_KEY = 35  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    API_VERSION = 1  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "folders",
            Array(
                ("error_code", Int16),
                ("folder", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("name", String("utf-8")),
                        (
                            "partitions",
                            Array(
                                ("partition", Int32),
                                ("size", Int64),
                                ("offset_lag", Int64),
                                ("is_future", Boolean),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )


class LogDirsStruct(RequestStruct):
    """Key 35, version 1: Kafka 4 has no older one."""

    API_KEY = 35
    API_VERSION = 1
    RESPONSE_TYPE = LogDirsResponse
    SCHEMA = Schema(("topics", Array(("name", String("utf-8")), ("partitions", Array(Int32)))))


class LogDirsRequest(Request[LogDirsStruct]):
    """The sizes of these partitions in the folders of the broker that is asked."""

    API_KEY = 35

    def __init__(self, topics: Mapping[str, Sequence[int]]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[LogDirsStruct]) -> LogDirsStruct:
        """The partitions by topic; those of others are not answered."""
        return request_struct_class([(topic, list(numbers)) for topic, numbers in self._topics.items()])
