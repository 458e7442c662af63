"""A topic name that Kafka refuses concerns the record that has it, not the process."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka
from streamsched_brokers.kafka.failure import translate_errors

from streamsched.domain.errors import NotFoundError


def test_a_name_that_no_topic_can_have_is_a_topic_that_does_not_exist() -> None:
    with pytest.raises(NotFoundError), translate_errors():
        raise kafka.InvalidTopicError("\x01\x1b")
