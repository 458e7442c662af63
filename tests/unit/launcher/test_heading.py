"""The heading of a ready job on the wire is the job's, and refuses what decoding refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.codec.records import launch
from streamsched.domain.errors import DecodeError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import ScheduleRef

READY = ReadyJob(ScheduleRef("default", "app", "x"), 2, 3, datetime(2026, 3, 1, 12, tzinfo=UTC), ())


def test_the_heading_is_the_jobs() -> None:
    assert launch.peek(launch.encode(READY)) == (READY.schedule, 2, 3, READY.satisfied_at)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"v": 9}', launch.encode(READY).replace(b'"events"', b'"e"')])
def test_what_is_no_job_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        launch.peek(raw)
